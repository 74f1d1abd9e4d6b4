"""Read TensorFlow Lite models into dovetail networks."""

from __future__ import annotations

from .call import Call
from .parser import TfliteParser, parse
from .registry import custom_operator
from .unsupported import Unsupported

__all__ = ["Call", "TfliteParser", "Unsupported", "custom_operator", "parse"]
