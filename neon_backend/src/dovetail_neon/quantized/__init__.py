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

BYTE_RULES = {
    "dovetail.Convolution2d": "lowering.lower_convolution",
    "dovetail.DepthwiseConvolution2d": "lowering.lower_convolution",
    "dovetail.ElementwiseBinary": "lowering.lower_addition",
    "dovetail.FullyConnected": "lowering.lower_fully_connected",
    "dovetail.GlobalPooling": "lowering.lower_pooling",
    "dovetail.Pooling2d": "lowering.lower_pooling",
}

FINER = {
    "dovetail.DepthwiseConvolution2d": "support.columns",
}
