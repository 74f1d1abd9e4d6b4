"""Multiply matrices: two computed ones by a kernel of their own, a constant one by convolution."""

from __future__ import annotations

WORKLOADS = {
    "dovetail.MatMul": "matmul.create",
}

PRODUCTS = {
    "dovetail.FullyConnected": "lowering.lower_product",
    "dovetail.MatMul": "lowering.lower_product",
}
