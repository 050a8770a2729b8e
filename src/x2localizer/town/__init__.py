"""The embedded world: towns made from a seed, painted from above, driven through and filmed from the street."""
