"""One on-disk format for every data set, the ways into it, and its checks."""
