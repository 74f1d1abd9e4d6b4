"""GpuAcc, the OpenCL backend: GPUs, and CPUs and accelerators that have an OpenCL driver."""

from .backend import GpuAccBackend

__all__ = ["GpuAccBackend"]
