"""What a driver compiles: operations on tensors of the NPU, free of layers and of drivers.

`lowering` makes a `Program` of a part of a network, a driver compiles it for a chip. Images are
planar here, [N, C, H, W], which the vendor's tools write backwards as WHCN: what lay otherwise in
the model is permuted by operations of its own.
"""

from .operations import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Permute,
    Pooling,
    Requantize,
    Reshape,
    Resize,
    Softmax,
    Weights,
)
from .program import Program
from .tensors import Tensor

__all__ = [
    "Binary",
    "Concat",
    "Convolution",
    "FullyConnected",
    "Function",
    "Operation",
    "Pad",
    "Permute",
    "Pooling",
    "Program",
    "Requantize",
    "Reshape",
    "Resize",
    "Softmax",
    "Tensor",
    "Weights",
]
