"""Read TensorFlow Lite models into dovetail networks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

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

if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name acceptable to type checkers

    def __getattr__(name: str) -> Any:
        if os.path.exists(os.path.join(__path__[0], f"{name}.py")):  # it is about to be imported
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        from dovetail.ground.close_names import no_name
        from dovetail.ground.names_elsewhere import OF_PARSERS

        raise no_name(sys.modules[__name__], name, OF_PARSERS)
