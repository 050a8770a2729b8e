"""Synthetic towns: generated from a seed, painted from above, driven through and filmed from the street."""
