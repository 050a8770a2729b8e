"""How good is it? The protocols of the benchmark, on data sets with their truth."""
