"""Read TensorFlow Lite models into dovetail networks."""

from __future__ import annotations

from .call import Call
from .own_operators import RegisteredOperator, builtin_operator, custom_operator
from .parser import TfliteParser, parse
from .tensors import Tensor
from .unsupported import Unsupported

__all__ = [
    "Call",
    "RegisteredOperator",
    "Tensor",
    "TfliteParser",
    "Unsupported",
    "builtin_operator",
    "custom_operator",
    "parse",
]
