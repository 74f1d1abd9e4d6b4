"""What is worked out along axes: softmax, normalizations, reductions."""

from __future__ import annotations

WORKLOADS = {
    "dovetail.BatchNormalization": "normalization.create_batch",
    "dovetail.GroupNormalization": "normalization.create_group",
    "dovetail.InstanceNormalization": "normalization.create_instance",
    "dovetail.LayerNormalization": "layer_normalization.create",
    "dovetail.Reduce": "reduction.create",
    "dovetail.Softmax": "softmax.create",
}
