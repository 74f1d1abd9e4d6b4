"""Windows over each channel of images by itself: depthwise convolution and pooling."""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Depthwise": "windows.create_depthwise",
    "CpuAcc.DepthwiseBfloat16": "bfloat16.create_depthwise",
    "CpuAcc.MeanOfImage": "windows.create_mean",
    "CpuAcc.Pool": "windows.create_pool",
}

RULES = {
    "dovetail.GlobalPooling": "lowering.lower_global_pooling",
    "dovetail.Pooling2d": "lowering.lower_pooling",
}
