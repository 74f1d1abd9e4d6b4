"""TransposeConvolution2d: every pixel adds scaled filters to the result."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import ActivationFunction, TransposeConvolution2d

from ..cases import Case, Parameters
from ..references.images import LAYOUTS, filters_first
from ..references.products import LARGEST, filtering_operator, weighted_case, weighted_images
from ..references.windows import transpose_convolution


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    batch, channels, filters, groups = (parameters[name] for name in ("batch", "channels", "filters", "groups"))
    kernel, size = tuple((parameters[f"{what}height"], parameters[f"{what}width"]) for what in ("kernel ", ""))
    stride, padding, dilation = (parameters[name] for name in ("stride", "padding", "dilation"))
    extra, layout = parameters["output_padding"], DataLayout(parameters["layout"])
    if min(*kernel, *size, *stride, *dilation, groups, channels, filters) < 1 or min(*padding, *extra) < 0:
        return None
    if channels % groups or filters % groups or (groups > 1 and layout is not DataLayout.NCHW):
        return None
    reach = [stride[i] * (size[i] - 1) + dilation[i] * (kernel[i] - 1) + 1 + extra[i] for i in range(2)]
    if any(reach[i] <= padding[i] + padding[i + 2] for i in range(2)):
        return None
    if any(extra[i] >= max(stride[i], dilation[i]) for i in range(2)):
        return None  # ONNX and PyTorch do not define it
    # The reference reads zeros between the pixels, too.
    if batch * math.prod(reach) * math.prod(kernel) * channels * filters > LARGEST:
        return None
    sliding = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": extra, "groups": groups}
    taps = [-(-kernel[i] // (stride[i] // math.gcd(stride[i], dilation[i]))) for i in range(2)]
    layer = weighted_images(
        TransposeConvolution2d,
        transpose_convolution,
        sliding,
        layout,
        input_shape=(batch, channels, *size),
        weights_shape=(channels, filters // groups, *kernel),
        terms=channels // groups * math.prod(taps),
        filters=filters,
        weights_axis=1 if layout is DataLayout.NCHW else 0,
        place_weights=filters_first,
    )
    if parameters["weights quantization"] == "per_axis" and groups > 1:
        return None  # [C, O / groups, h, w] has no axis that counts all filters
    return weighted_case(layer, parameters, dtype, rng)


OPERATOR = filtering_operator(
    "TransposeConvolution2d",
    _make,
    {
        "batch": (1, 2, 0),
        "height": (4, 1, 3, 7),
        "width": (5, 1, 4, 9),
        "channels": (4, 1, 3, 8, 17),
        "filters": (6, 1, 5, 8, 17),
        "kernel height": (3, 1, 2, 5),
        "kernel width": (3, 1, 2, 4),
        "stride": ((1, 1), (2, 2), (2, 1), (1, 3), (4, 4)),
        "padding": ((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 2, 1)),
        "dilation": ((1, 1), (2, 2), (1, 2), (3, 1)),
        "output_padding": ((0, 0),),
        "groups": (1, 2),
        "layout": LAYOUTS,
    },
    {
        **dict.fromkeys(("output.channels", "bias.0"), "filters"),
    },
    together=[
        {"kernel height": 1, "kernel width": 1},
        {"kernel height": 1, "kernel width": 1, "height": 1, "width": 1, "channels": 1, "filters": 1},
        {"kernel height": 1, "kernel width": 1, "stride": (2, 2)},  # pixels that nothing reaches
        {"kernel height": 2, "kernel width": 2, "stride": (2, 2), "layout": DataLayout.NHWC},
        {"kernel height": 4, "kernel width": 4, "stride": (2, 2), "padding": (1, 1, 1, 1), "batch": 2},
        {"stride": (2, 2), "output_padding": (1, 1), "padding": (1, 1, 1, 1)},
        {"stride": (2, 3), "output_padding": (1, 0), "padding": (1, 0, 2, 1), "layout": DataLayout.NHWC},
        {"stride": (3, 2), "output_padding": (2, 1), "dilation": (2, 1), "padding": (1, 1, 1, 1), "groups": 2},
        {"stride": (4, 4), "output_padding": (3, 3)},
        {"padding": (0, 0, 1, 1), "stride": (2, 2), "layout": DataLayout.NHWC},
        {"dilation": (2, 2), "stride": (2, 2)},
        {"batch": 2, "layout": DataLayout.NHWC, "stride": (1, 2), "dilation": (2, 1), "padding": (2, 1, 0, 3)},
        {"groups": 4, "filters": 8},
        {"groups": 3, "channels": 9, "filters": 12, "stride": (2, 2)},
        {"bias.dtype": None, "activation": ActivationFunction.RELU},
        {"bias.dtype": None, "layout": DataLayout.NHWC, "stride": (2, 2)},
        {"activation": ActivationFunction.BOUNDED_RELU, "layout": DataLayout.NHWC, "batch": 2},
        {"weights quantization": "per_axis", "layout": DataLayout.NHWC, "stride": (2, 2)},
        {"weights quantization": "per_axis", "bias.dtype": None, "padding": (1, 1, 1, 1)},
        {"weights quantization": "per_axis", "activation": ActivationFunction.RELU},
        {"weights.constant": False, "bias.constant": False, "layout": DataLayout.NHWC},
        {"channels": 16, "filters": 16, "layout": DataLayout.NHWC, "stride": (2, 2)},
    ],
)
