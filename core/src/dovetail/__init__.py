"""Pluggable neural-network inference: parse, optimize, split among backends, and run a network.

Everything here is imported when it is first asked for: ``import dovetail`` loads no backend, no
parser and no compiled extension, and works before the extensions are built.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

IMPORTED_NS = time.time_ns()
"""When this process began to use what is installed; what was installed later it may not have."""

if TYPE_CHECKING:  # what type checkers and editors see; what runs is the table below
    from .contract.abi_version import get_include as get_include
    from .contract.backend import Backend as Backend
    from .contract.backend_id import BackendId as BackendId
    from .contract.interfaces import HOST as HOST
    from .contract.interfaces import Capabilities as Capabilities
    from .contract.interfaces import Device as Device
    from .contract.interfaces import HostResources as HostResources
    from .contract.interfaces import IBackend as IBackend
    from .contract.interfaces import IBackendContext as IBackendContext
    from .contract.interfaces import IMemoryManager as IMemoryManager
    from .contract.interfaces import IParser as IParser
    from .contract.interfaces import ITensorHandle as ITensorHandle
    from .contract.interfaces import IWorkloadFactory as IWorkloadFactory
    from .contract.interfaces import MemoryDomain as MemoryDomain
    from .contract.interfaces import NoOptions as NoOptions
    from .contract.interfaces import Run as Run
    from .contract.interfaces import Support as Support
    from .contract.interfaces import TensorDomains as TensorDomains
    from .contract.private_layer import PrivateLayer as PrivateLayer
    from .contract.subgraph import Choices as Choices
    from .contract.subgraph import OptimizationViews as OptimizationViews
    from .contract.subgraph import SubgraphView as SubgraphView
    from .discovery.registry import backends as backends
    from .graph.descriptor import Constant as Constant
    from .graph.descriptor import Descriptor as Descriptor
    from .graph.element_types import DType as DType
    from .graph.layer import Layer as Layer
    from .graph.tensor import DataLayout as DataLayout
    from .graph.tensor import OpaqueLayout as OpaqueLayout
    from .graph.tensor import Quantization as Quantization
    from .graph.tensor import TensorInfo as TensorInfo
    from .ground.errors import BackendError as BackendError
    from .ground.errors import BackendUnavailableError as BackendUnavailableError
    from .ground.errors import DovetailError as DovetailError
    from .ground.errors import ErrorCode as ErrorCode
    from .ground.errors import GraphError as GraphError
    from .ground.errors import InputError as InputError
    from .ground.errors import LimitError as LimitError
    from .ground.errors import LoadTimeoutError as LoadTimeoutError
    from .ground.errors import ModelError as ModelError
    from .ground.errors import OptionError as OptionError
    from .ground.errors import PlacementError as PlacementError
    from .ground.errors import RunError as RunError
    from .ground.errors import RunTimeoutError as RunTimeoutError
    from .ground.errors import UnsupportedModelError as UnsupportedModelError
    from .ground.limits import Limits as Limits
    from .layers.network import Network as Network
    from .loading.load import load as load
    from .loading.optimizing import optimize as optimize
    from .loading.parsing import parse as parse
    from .optimizer import OptimizedNetwork as OptimizedNetwork
    from .optimizer.policy import Answer as Answer
    from .optimizer.policy import Answers as Answers
    from .optimizer.policy import PlacementPolicy as PlacementPolicy
    from .runtime import LoadedNetwork as LoadedNetwork
    from .runtime import Runtime as Runtime
    from .runtime.guard import Guard as Guard

    __version__: str

_NAMES_BY_MODULE = {
    "contract.abi_version": ("get_include",),
    "contract.backend": ("Backend",),
    "contract.backend_id": ("BackendId",),
    "contract.interfaces": (
        "HOST",
        "Capabilities",
        "Device",
        "IBackend",
        "IBackendContext",
        "IMemoryManager",
        "IParser",
        "ITensorHandle",
        "IWorkloadFactory",
        "MemoryDomain",
        "NoOptions",
        "HostResources",
        "Run",
        "Support",
        "TensorDomains",
    ),
    "contract.private_layer": ("PrivateLayer",),
    "contract.subgraph": ("Choices", "OptimizationViews", "SubgraphView"),
    "discovery.registry": ("backends",),
    "graph.descriptor": ("Constant", "Descriptor"),
    "graph.element_types": ("DType",),
    "graph.layer": ("Layer",),
    "graph.tensor": ("DataLayout", "OpaqueLayout", "Quantization", "TensorInfo"),
    "ground.errors": (
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
    "ground.limits": ("Limits",),
    "layers.network": ("Network",),
    "loading.load": ("load",),
    "loading.optimizing": ("optimize",),
    "loading.parsing": ("parse",),
    "optimizer": ("OptimizedNetwork",),
    "optimizer.policy": ("Answer", "Answers", "PlacementPolicy"),
    "runtime": ("LoadedNetwork", "Runtime"),
    "runtime.guard": ("Guard",),
}
_HOME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])  # type checkers go by the imports above


if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name acceptable to type checkers

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from .ground.version import core_version

            value: Any = core_version()
        elif name in _HOME:
            value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        else:
            module = sys.modules[__name__]
            if os.path.exists(os.path.join(__path__[0], name)):  # it is about to be imported
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=module)
            from .ground.close_names import no_name

            raise no_name(module, name, _sentences(name))
        globals()[name] = value
        return value


def _sentences(name: str) -> dict[str, str]:
    """Return what is known of names that are not here; of backends that are installed, too."""
    from .ground.names_elsewhere import OF_PACKAGE, of_backend

    if name in OF_PACKAGE or not name[:1].isupper():  # as ids are written by habit: nobody is asked of others
        return OF_PACKAGE
    from .discovery.entry_points import offers
    from .discovery.registry import GROUP

    ids = {offer.name.lower(): offer.name for offer in offers(GROUP)}
    return {**OF_PACKAGE, name: of_backend(ids[name.lower()])} if name.lower() in ids else OF_PACKAGE


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
