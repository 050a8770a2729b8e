"""One on-disk format for every dataset, the ways into it, and its checks."""
