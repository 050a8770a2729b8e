"""How good is it? The protocols of the benchmark, on datasets with their truth."""
