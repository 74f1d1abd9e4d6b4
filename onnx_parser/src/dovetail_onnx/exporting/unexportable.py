"""What a rule raises for a layer that ONNX has no words for."""

from __future__ import annotations


class Unexportable(Exception):
    """ONNX cannot say a layer; the text says what it lacks."""
