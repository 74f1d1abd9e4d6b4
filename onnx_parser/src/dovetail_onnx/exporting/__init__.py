"""Export a part of a network to ONNX: layers become nodes, constants become initializers.

One function for each kind stands in `kinds/<family>.py`. The same function answers whether ONNX can
say a layer at all, so that the answer cannot drift from the export.
"""

from __future__ import annotations

from .exported import ExportedModel
from .part import export, unexportable

__all__ = ["ExportedModel", "export", "unexportable"]
