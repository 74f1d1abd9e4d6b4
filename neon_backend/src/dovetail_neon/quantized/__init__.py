"""Layers of quantized tensors, computed on bytes with sums in 32 bits.

`requantization` is what all of them share: from sums to results.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.AddQuantized": "elements.create_sum",
    "CpuAcc.ConvolveQuantized": "convolution.create",
    "CpuAcc.DepthwiseQuantized": "windows.create_depthwise",
    "CpuAcc.PoolQuantized": "windows.create_pool",
    "CpuAcc.ReorderQuantized": "elements.create_reorder",
    "dovetail.Dequantize": "elements.create_quantize",
    "dovetail.Quantize": "elements.create_quantize",
}
