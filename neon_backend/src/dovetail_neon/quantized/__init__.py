"""Layers of quantized tensors, computed on bytes with sums in 32 bits, or on int16.

`requantization` is what those on bytes share: from sums to results.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.AddQuantized": "elements.create_sum",
    "CpuAcc.ConvolveQuantized": "convolution.create",
    "CpuAcc.ConvolveShorts": "shorts.create_convolution",
    "CpuAcc.DepthwiseQuantized": "depthwise.create",
    "CpuAcc.DepthwiseShorts": "shorts.create_depthwise",
    "CpuAcc.ExtremeQuantized": "elements.create_extreme",
    "CpuAcc.MapQuantized": "elements.create_map",
    "CpuAcc.MultiplyQuantized": "elements.create_product",
    "CpuAcc.PoolQuantized": "pooling.create",
    "CpuAcc.PreluQuantized": "elements.create_prelu",
    "CpuAcc.ProductQuantized": "products.create",
    "CpuAcc.QuantizeImage": "elements.create_entry",
    "CpuAcc.ReduceQuantized": "reduction.create",
    "CpuAcc.ReorderQuantized": "elements.create_reorder",
    "CpuAcc.SoftmaxQuantized": "softmax.create",
    "dovetail.Dequantize": "elements.create_quantize",
    "dovetail.Quantize": "elements.create_quantize",
}

BYTE_RULES = {
    "dovetail.Activation": "elementwise.lower_function",
    "dovetail.Concat": "elementwise.lower_join",
    "dovetail.Convolution2d": "lowering.lower_convolution",
    "dovetail.DepthwiseConvolution2d": "lowering.lower_convolution",
    "dovetail.ElementwiseBinary": "elementwise.lower_binary",
    "dovetail.ElementwiseUnary": "elementwise.lower_function",
    "dovetail.FullyConnected": "lowering.lower_fully_connected",
    "dovetail.GlobalPooling": "lowering.lower_pooling",
    "dovetail.MatMul": "multiplying.lower_product",
    "dovetail.Pooling2d": "lowering.lower_pooling",
    "dovetail.Prelu": "elementwise.lower_prelu",
    "dovetail.Reduce": "reducing.lower_reduction",
    "dovetail.Resize": "resizing.lower_resize",
    "dovetail.Softmax": "normalizing.lower_softmax",
    "dovetail.Stack": "elementwise.lower_join",
    "dovetail.TransposeConvolution2d": "transposed.lower_transposed",
}

SHORT_RULES = {
    "dovetail.Convolution2d": "short_products.lower_convolution",
    "dovetail.DepthwiseConvolution2d": "short_products.lower_convolution",
    "dovetail.FullyConnected": "short_products.lower_fully_connected",
    "dovetail.TransposeConvolution2d": "short_products.lower_transposed",
}

FINER = {
    "dovetail.DepthwiseConvolution2d": "support.columns",
}
