"""One module per family of layers: `supports(layer)` and `create(layer, dtype)` stand in one file."""
