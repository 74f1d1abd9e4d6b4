"""Convolutions, and products with constant matrices, which are convolutions of one tap.

`lowering` says what a convolution becomes, `grouped` and `transposed` what those become that need
more. Kernels are `direct` sums and `winograd`, of which `algorithms` says the faster, `group_lanes`
for groups that do not fill blocks, and with rounded factors `bfloat16` and `float16`.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Convolve": "direct.create",
    "CpuAcc.ConvolveBfloat16": "bfloat16.create",
    "CpuAcc.ConvolveFloat16": "direct.create",
    "CpuAcc.ConvolveGrouped": "group_lanes.create",
    "CpuAcc.WinogradConvolve": "winograd.create",
}

PRODUCTS = {
    "dovetail.Convolution2d": "lowering.lower_convolution",
    "dovetail.DepthwiseConvolution2d": "lowering.lower_convolution",
    "dovetail.TransposeConvolution2d": "transposed.lower_transposed",
}

FINER = {
    "dovetail.TransposeConvolution2d": "transposed.refusal",
}
