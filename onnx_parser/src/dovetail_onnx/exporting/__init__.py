"""Export a network, or a part of one, to ONNX: layers become nodes, constants become initializers.

One function for each kind stands in `kinds/<family>.py`. The same function answers whether ONNX can
say a layer at all, so that the answer cannot drift from the export.
"""

from __future__ import annotations

from .exported import ExportedModel
from .part import export, unexportable
from .whole import export_network

__all__ = ["ExportedModel", "export", "export_network", "unexportable"]
