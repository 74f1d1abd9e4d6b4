"""Pluggable neural-network inference: parse a network, optimize it, split it among backends, run it.

Everything here is imported when it is first asked for: ``import dovetail`` loads no backend, no parser and no compiled
extension, and works before the extensions are built.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; what runs is the table below
    from .backend_id import BackendId as BackendId
    from .descriptor import Descriptor as Descriptor
    from .errors import BackendError as BackendError
    from .errors import BackendUnavailableError as BackendUnavailableError
    from .errors import DovetailError as DovetailError
    from .errors import ErrorCode as ErrorCode
    from .errors import GraphError as GraphError
    from .errors import InputError as InputError
    from .errors import LimitError as LimitError
    from .errors import LoadTimeoutError as LoadTimeoutError
    from .errors import ModelError as ModelError
    from .errors import OptionError as OptionError
    from .errors import PlacementError as PlacementError
    from .errors import RunError as RunError
    from .errors import RunTimeoutError as RunTimeoutError
    from .errors import UnsupportedModelError as UnsupportedModelError
    from .interfaces import Capabilities as Capabilities
    from .interfaces import IBackend as IBackend
    from .interfaces import IBackendContext as IBackendContext
    from .interfaces import IMemoryManager as IMemoryManager
    from .interfaces import IParser as IParser
    from .interfaces import ITensorHandle as ITensorHandle
    from .interfaces import IWorkloadFactory as IWorkloadFactory
    from .interfaces import MemoryDomain as MemoryDomain
    from .interfaces import Support as Support
    from .limits import Limits as Limits
    from .loading import load as load
    from .network import Network as Network
    from .optimizer import OptimizedNetwork as OptimizedNetwork
    from .optimizer import optimize as optimize
    from .parsing import parse as parse
    from .registry import backends as backends
    from .runtime import LoadedNetwork as LoadedNetwork
    from .runtime import Runtime as Runtime
    from .subgraph import Choices as Choices
    from .subgraph import OptimizationViews as OptimizationViews
    from .subgraph import SubgraphView as SubgraphView
    from .tensor import DataLayout as DataLayout
    from .tensor import DType as DType
    from .tensor import Quantization as Quantization
    from .tensor import TensorInfo as TensorInfo
    from .tuning.measuring import tune as tune
    from .tuning.report import TuningReport as TuningReport

    __version__: str

_NAMES_BY_MODULE = {
    "backend_id": ("BackendId",),
    "errors": (
        "BackendError",
        "BackendUnavailableError",
        "DovetailError",
        "ErrorCode",
        "GraphError",
        "InputError",
        "LimitError",
        "LoadTimeoutError",
        "ModelError",
        "OptionError",
        "PlacementError",
        "RunError",
        "RunTimeoutError",
        "UnsupportedModelError",
    ),
    "descriptor": ("Descriptor",),
    "interfaces": (
        "Capabilities",
        "IBackend",
        "IBackendContext",
        "IMemoryManager",
        "IParser",
        "ITensorHandle",
        "IWorkloadFactory",
        "MemoryDomain",
        "Support",
    ),
    "limits": ("Limits",),
    "loading": ("load",),
    "network": ("Network",),
    "optimizer": ("OptimizedNetwork", "optimize"),
    "parsing": ("parse",),
    "registry": ("backends",),
    "runtime": ("LoadedNetwork", "Runtime"),
    "subgraph": ("Choices", "OptimizationViews", "SubgraphView"),
    "tensor": ("DType", "DataLayout", "Quantization", "TensorInfo"),
    "tuning.measuring": ("tune",),
    "tuning.report": ("TuningReport",),
}
_HOME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])  # type checkers go by the imports above


def _version() -> str:
    from importlib_metadata import PackageNotFoundError, version

    try:
        return version("dovetail-core")
    except PackageNotFoundError:  # a source tree that was put on sys.path without being installed
        return "0+unknown"


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name acceptable to type checkers

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            value: Any = _version()
        elif name in _HOME:
            value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
