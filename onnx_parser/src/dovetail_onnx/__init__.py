"""Read ONNX models into dovetail networks."""

from __future__ import annotations

from .parser import OnnxParser, parse

__all__ = ["OnnxParser", "parse"]
