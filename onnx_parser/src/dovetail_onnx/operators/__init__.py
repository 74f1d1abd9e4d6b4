"""One module per family of operators; importing this package fills the table of `dovetail_onnx.registry`."""

from . import (
    activation,
    constants,
    convolution,
    einsum,
    elementwise,
    indexing,
    joining,
    logic,
    matrix,
    normalization,
    pooling,
    quantization,
    quantized_products,
    reduction,
    reshaping,
    resizing,
)

__all__ = [
    "activation",
    "constants",
    "convolution",
    "einsum",
    "elementwise",
    "indexing",
    "joining",
    "logic",
    "matrix",
    "normalization",
    "pooling",
    "quantization",
    "quantized_products",
    "reduction",
    "reshaping",
    "resizing",
]
