"""Following a camera over a whole map: one belief over poses, fed by odometry and by terms of evidence."""
