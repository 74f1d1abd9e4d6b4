"""VsiNpu: VeriSilicon's NPU as a backend of dovetail, with a model of it in software."""

from .backend import VsiNpuBackend
from .binary_file import BinaryParser
from .options import VsiNpuOptions

__all__ = ["BinaryParser", "VsiNpuBackend", "VsiNpuOptions"]
