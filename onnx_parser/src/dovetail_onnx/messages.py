"""The messages that a model file is made of, as the package `onnx` defines them, without the rest of that package.

``import onnx`` also imports its checker, its converters and three libraries for them: 50 ms before a file is opened, most
of what the parser took to import. The classes themselves come from one generated module of it, which needs protobuf alone; it
is run here by its file. Protobuf makes one class per message and process, so they are those of `onnx`, whoever imports it when.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = [
    "AttributeProto",
    "FunctionProto",
    "GraphProto",
    "ModelProto",
    "NodeProto",
    "OperatorSetIdProto",
    "SparseTensorProto",
    "TensorProto",
    "TypeProto",
    "ValueInfoProto",
]

_GENERATED = "onnx_ml_pb2"


def _definitions() -> ModuleType:
    """Return a module that has the classes: the generated one where it can be run by itself, else all of `onnx`."""
    if "onnx" not in sys.modules:
        package = PathFinder.find_spec("onnx")
        for folder in (package and package.submodule_search_locations) or ():
            # Under its own name: that is how its classes are found again where one is unpickled.
            spec = spec_from_file_location(f"onnx.{_GENERATED}", Path(folder, f"{_GENERATED}.py"))
            if spec is None or spec.loader is None or not Path(folder, f"{_GENERATED}.py").is_file():
                continue
            generated = module_from_spec(spec)
            spec.loader.exec_module(generated)
            return generated
    return import_module("onnx")


if TYPE_CHECKING:
    from onnx import (
        AttributeProto,
        FunctionProto,
        GraphProto,
        ModelProto,
        NodeProto,
        OperatorSetIdProto,
        SparseTensorProto,
        TensorProto,
        TypeProto,
        ValueInfoProto,
    )
else:
    _found = _definitions()
    globals().update({name: getattr(_found, name) for name in __all__})
