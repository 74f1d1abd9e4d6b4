"""One module per family of kinds; importing this package fills the table of rules."""

from . import (
    activation,
    convolution,
    elementwise,
    indexing,
    joining,
    matrix,
    normalization,
    pooling,
    quantizing,
    recurrent,
    reduction,
    reshaping,
    resizing,
)

__all__ = [
    "activation",
    "convolution",
    "elementwise",
    "indexing",
    "joining",
    "matrix",
    "normalization",
    "pooling",
    "quantizing",
    "recurrent",
    "reduction",
    "reshaping",
    "resizing",
]
