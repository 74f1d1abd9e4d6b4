"""Read ONNX models into dovetail networks, and export parts of networks to ONNX."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from .node import Node
from .own_operators import RegisteredOperator, operator
from .parser import OnnxParser, parse
from .tensors import Tensor
from .unsupported import Unsupported

if TYPE_CHECKING:
    from .exporting import ExportedModel as ExportedModel
    from .exporting import export as export
    from .exporting import export_network as export_network
    from .exporting import unexportable as unexportable

__all__ = [
    "ExportedModel",
    "Node",
    "OnnxParser",
    "RegisteredOperator",
    "Tensor",
    "Unsupported",
    "export",
    "export_network",
    "operator",
    "parse",
    "unexportable",
]

_OF_EXPORTING = ("ExportedModel", "export", "export_network", "unexportable")


def __getattr__(name: str) -> Any:
    """Import what exports on first use: it needs `onnx`, which reading most models does not."""
    if name in _OF_EXPORTING:
        from . import exporting

        return getattr(exporting, name)
    if os.path.exists(os.path.join(__path__[0], f"{name}.py")):  # it is about to be imported
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    from dovetail.ground.close_names import no_name
    from dovetail.ground.names_elsewhere import OF_PARSERS

    raise no_name(sys.modules[__name__], name, OF_PARSERS)
