"""Hostile sizes: elementwise layers and conversions of types."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Dequantize, Quantize

from .case import enter, flat, one_eighth


def enter_cases() -> None:
    """Enter them into the table."""
    for dtype in ("float32", "float16", "float64", "int8", "uint8", "int32", "int64"):
        enter(f"add {dtype}", lambda n, d=dtype: {"x": ((n,), d), "z": ((n,), d)}, lambda net, x, z, n: net.addition(x, z))
        enter(f"divide {dtype}", flat(None, None, dtype=dtype), lambda net, x, n: net.division(x, x))
        enter(
            f"cast to float32 {dtype}", flat(None, dtype=dtype), lambda net, x, n: net.cast(net.cast(x, "float64"), "float32")
        )
    for operation in ("exp", "tan", "erf", "floor", "sqrt", "abs", "is_nan"):
        enter(f"unary {operation}", flat(None), lambda net, x, n, o=operation: net.unary(x, o))
        enter(f"unary {operation} float16", flat(None, dtype="float16"), lambda net, x, n, o=operation: net.unary(x, o))
        enter(f"unary {operation} float64", flat(None, dtype="float64"), lambda net, x, n, o=operation: net.unary(x, o))
    enter("pow", flat(None), lambda net, x, n: net.binary(x, x, "pow"))
    enter("mod int64", flat(None, dtype="int64"), lambda net, x, n: net.binary(x, x, "mod"))
    enter(
        "add broadcast rows",
        lambda n: {"x": ((n // 4, 1), "float32"), "z": ((1, 4), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter(
        "add broadcast columns",
        lambda n: {"x": ((4, 1), "float32"), "z": ((1, n // 4), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter(
        "add outer",
        lambda n: {"x": ((1, 16384), "float32"), "z": ((16384, 1), "float32")},
        lambda net, x, z, n: net.addition(x, z),
    )
    enter("chain of activations", flat(None), lambda net, x, n: net.tanh(net.sigmoid(net.gelu(x))))
    enter("gelu", flat(1, None), lambda net, x, n: net.gelu(x))
    enter("relu image", flat(1, 1, None, None), lambda net, x, n: net.relu(x))
    enter("prelu", flat(1, 3, None, None), lambda net, x, n: net.prelu(x, np.ones((3, 1, 1), np.float32)))
    enter("compare", flat(None), lambda net, x, n: net.comparison(x, net.constant(np.float32(0)), "greater"))
    enter(
        "where",
        lambda n: {"c": ((n,), "bool"), "x": ((n,), "float32")},
        lambda net, c, x, n: net.where(c, x, net.constant(np.float32(1))),
    )
    for dtype in ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16"):
        enter(f"cast float32 to {dtype}", flat(None), lambda net, x, n, d=dtype: net.cast(x, DType.of(d)))
    enter("quantize", flat(1, 1, None, None), lambda net, x, n: net.quantize(x, one_eighth()))
    enter(
        "quantize plain", flat(None), lambda net, x, n: net.add(Quantize(dtype=DType.INT8, quantization=one_eighth()), x).output
    )
    enter("dequantize", flat(None, dtype="int8"), lambda net, x, n: net.add(Dequantize(quantization=one_eighth()), x).output)
    enter(
        "quantized add image",
        flat(1, 1, None, None),
        lambda net, x, n: net.dequantize(
            net.quantize(
                net.addition(
                    net.dequantize(net.quantize(x, one_eighth()), one_eighth()),
                    net.dequantize(net.quantize(x, one_eighth()), one_eighth()),
                ),
                one_eighth(),
            ),
            one_eighth(),
        ),
    )
