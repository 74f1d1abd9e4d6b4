"""Make workloads: one module per family; `create(layer, dtype)` makes that of a claimed layer."""
