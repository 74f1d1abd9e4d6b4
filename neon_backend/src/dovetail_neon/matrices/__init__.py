"""Products of matrices: of two that are computed by a kernel of their own, with a constant one as a convolution."""

from __future__ import annotations

WORKLOADS = {
    "dovetail.MatMul": "matmul.create",
}
