"""DepthwiseConvolution2d: every channel has filters of its own."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import ActivationFunction, DepthwiseConvolution2d

from ..cases import Case, Parameters
from ..references.images import FILTERED, IMAGE, SLIDING, WITHOUT_WINDOW, filters_first, fitted
from ..references.products import LARGEST, filtering_operator, weighted_case, weighted_images
from ..references.windows import depthwise


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    batch, channels, multiplier = (parameters[name] for name in ("batch", "channels", "multiplier"))
    kernel = (parameters["kernel height"], parameters["kernel width"])
    size, layout = fitted(parameters, kernel), DataLayout(parameters["layout"])
    if size is None or channels < 1 or multiplier < 1:
        return None
    filters, terms = channels * multiplier, math.prod(kernel)
    if batch * math.prod(size) * filters * terms > LARGEST:
        return None
    layer = weighted_images(
        DepthwiseConvolution2d,
        depthwise,
        {name: parameters[name] for name in ("stride", "padding", "dilation")},
        layout,
        input_shape=(batch, channels, *size),
        weights_shape=(filters, 1, *kernel),
        terms=terms,
        filters=filters,
        weights_axis=0 if layout is DataLayout.NCHW else 3,
        place_weights=filters_first,
    )
    return weighted_case(layer, parameters, dtype, rng)


OPERATOR = filtering_operator(
    "DepthwiseConvolution2d",
    _make,
    {
        **IMAGE,
        **FILTERED,
        "multiplier": (1, 2, 3),
        **SLIDING,
    },
    {},
    impossible={**WITHOUT_WINDOW, "*: weights.* below 1": "the kind takes images that have channels"},
    together=[
        {"kernel height": 1, "kernel width": 1},
        {"kernel height": 1, "kernel width": 1, "height": 1, "width": 1, "channels": 1},
        {"kernel height": 1, "kernel width": 1, "stride": (2, 2), "layout": DataLayout.NHWC, "multiplier": 2},
        {"kernel height": 5, "kernel width": 5, "padding": (2, 2, 2, 2), "layout": DataLayout.NHWC},
        {"kernel height": 5, "kernel width": 1, "padding": (2, 0, 2, 0), "stride": (2, 2)},
        {"height": 1, "width": 1, "padding": (1, 1, 1, 1)},
        {"height": 3, "width": 3, "channels": 5},
        {"height": 1, "width": 1, "padding": (3, 3, 3, 3)},  # windows of padding alone
        {"padding": (0, 0, 1, 1), "stride": (2, 2), "layout": DataLayout.NHWC},  # TensorFlow's SAME
        {"batch": 2, "stride": (2, 1), "dilation": (1, 2), "padding": (0, 1, 2, 3), "multiplier": 2},
        {"batch": 2, "layout": DataLayout.NHWC, "padding": (2, 1, 0, 3), "stride": (1, 2), "dilation": (2, 1)},
        {"batch": 2, "layout": DataLayout.NHWC, "channels": 3, "multiplier": 3, "padding": (1, 1, 1, 1)},
        {"channels": 1, "multiplier": 8, "layout": DataLayout.NHWC},
        {"channels": 16, "layout": DataLayout.NHWC, "padding": (1, 1, 1, 1), "stride": (2, 2)},
        {"bias.dtype": None, "activation": ActivationFunction.RELU},
        {"bias.dtype": None, "layout": DataLayout.NHWC},
        {"activation": ActivationFunction.BOUNDED_RELU, "layout": DataLayout.NHWC, "batch": 2},
        {"weights quantization": "per_axis", "layout": DataLayout.NHWC, "padding": (1, 1, 1, 1)},
        {"weights quantization": "per_axis", "layout": DataLayout.NHWC, "multiplier": 2, "stride": (2, 2)},
        {"weights quantization": "per_axis", "bias.dtype": None, "padding": (1, 1, 1, 1), "stride": (2, 2)},
        {"weights quantization": "per_axis", "activation": ActivationFunction.RELU, "multiplier": 3},
        {"weights.constant": False, "bias.constant": False, "layout": DataLayout.NHWC},
    ],
)
