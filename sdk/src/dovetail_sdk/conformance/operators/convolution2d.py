"""Convolution2d: images and filters, in groups, of floats and of 8-bit integers."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import ActivationFunction, Convolution2d

from ..cases import Case, Parameters
from ..references.images import FILTERED, IMAGE, SLIDING, WITHOUT_WINDOW, fitted
from ..references.products import LARGEST, filtering_operator, weighted_case, weighted_images
from ..references.windows import convolution


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    batch, channels, filters, groups = (parameters[name] for name in ("batch", "channels", "filters", "groups"))
    kernel = (parameters["kernel height"], parameters["kernel width"])
    size, layout = fitted(parameters, kernel), DataLayout(parameters["layout"])
    if size is None or groups < 1 or channels % groups or filters % groups or channels < 1:
        return None
    terms = channels // groups * math.prod(kernel)
    if batch * math.prod(size) * filters * terms > LARGEST:
        return None
    sliding = {name: parameters[name] for name in ("stride", "padding", "dilation", "groups")}
    layer = weighted_images(
        Convolution2d,
        convolution,
        sliding,
        layout,
        input_shape=(batch, channels, *size),
        weights_shape=(filters, channels // groups, *kernel),
        terms=terms,
        filters=filters,
    )
    return weighted_case(layer, parameters, dtype, rng)


OPERATOR = filtering_operator(
    "Convolution2d",
    _make,
    {
        **IMAGE,
        **FILTERED,
        "filters": (6, 1, 5, 8, 17),
        **SLIDING,
        "groups": (1, 2),
    },
    {
        **dict.fromkeys(("output.channels", "weights.filters", "weights.0", "bias.0"), "filters"),
        "weights.channels": "channels",
    },
    impossible=WITHOUT_WINDOW,
    reaching={f"weights.{fact}": lambda size: {"filters": size} for fact in ("shape", "elements")},
    together=[
        {"kernel height": 1, "kernel width": 1},
        {"kernel height": 1, "kernel width": 1, "height": 1, "width": 1, "channels": 1, "filters": 1},
        {"kernel height": 1, "kernel width": 1, "stride": (2, 2), "layout": DataLayout.NHWC},
        # One result of a large image, and padding behind it: a point as a window, not as an image.
        {"kernel height": 1, "kernel width": 1, "stride": (40, 40), "groups": 2, "channels": 8, "filters": 8},
        {"kernel height": 1, "kernel width": 1, "padding": (0, 0, 2, 3), "groups": 2, "channels": 8, "filters": 8},
        {"kernel height": 1, "kernel width": 1, "stride": (7, 1), "groups": 2, "channels": 8, "filters": 64},
        {"kernel height": 1, "kernel width": 1, "stride": (3, 3), "padding": (1, 1, 1, 1), "batch": 2},
        {"kernel height": 1, "kernel width": 5, "padding": (0, 2, 0, 2)},
        {"kernel height": 5, "kernel width": 1, "padding": (2, 0, 2, 0), "stride": (2, 2), "layout": DataLayout.NHWC},
        {"height": 1, "width": 1, "padding": (1, 1, 1, 1)},
        {"height": 3, "width": 3},
        {"height": 1, "width": 1, "padding": (3, 3, 3, 3)},  # windows of padding alone
        {"padding": (0, 0, 1, 1), "stride": (2, 2), "layout": DataLayout.NHWC},  # TensorFlow's SAME
        {"batch": 2, "stride": (2, 1), "dilation": (1, 2), "padding": (0, 1, 2, 3), "groups": 2},
        {"batch": 2, "layout": DataLayout.NHWC, "padding": (2, 1, 0, 3), "stride": (1, 2), "dilation": (2, 1)},
        {"groups": 4, "filters": 8},
        {"groups": 2, "layout": DataLayout.NHWC},
        {"groups": 3, "channels": 9, "filters": 12, "padding": (1, 1, 1, 1), "layout": DataLayout.NHWC},
        {"bias.dtype": None, "activation": ActivationFunction.RELU},
        {"bias.dtype": None, "layout": DataLayout.NHWC},
        {"activation": ActivationFunction.BOUNDED_RELU, "layout": DataLayout.NHWC, "batch": 2},
        {"weights quantization": "per_axis", "layout": DataLayout.NHWC, "padding": (1, 1, 1, 1)},
        {"weights quantization": "per_axis", "bias.dtype": None, "padding": (1, 1, 1, 1), "stride": (2, 2)},
        {"weights quantization": "per_axis", "activation": ActivationFunction.RELU, "groups": 2},
        {"weights.constant": False, "bias.constant": False, "layout": DataLayout.NHWC},
        {"channels": 16, "filters": 16, "layout": DataLayout.NHWC, "padding": (1, 1, 1, 1)},
    ],
)
