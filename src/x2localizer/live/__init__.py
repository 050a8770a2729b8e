"""What people watch live: the map page, the page that sends a browser's camera, and a drive to look at."""
