"""One module per family of layers; `create(layer, dtype)` makes the workload of one that the claims take."""
