"""The adapter that ONNX's own test suite drives: `onnx.backend.base` on top of dovetail."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

import dovetail
from dovetail import DType, ErrorCode, InputError

from .parser import parse

BACKENDS_VARIABLE = "DOVETAIL_ONNX_BACKENDS"
"""Environment variable with the backend ids to use, in order of preference, comma-separated."""


class DovetailRep(BackendRep):
    """A model that is ready to run.

    Args:
        network: What runs it.
    """

    def __init__(self, network: dovetail.LoadedNetwork) -> None:
        self._network = network

    def run(self, inputs: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """Run on arrays, one for each input in order, or by name; initializers are not inputs.

        Raises:
            InputError: There are more or fewer arrays than inputs, or one does not fit.
        """
        results = self._network.run(self._feeds(inputs))
        return tuple(_with_numpy_dtype(results[spec.name], spec.dtype) for spec in self._network.outputs)

    def _feeds(self, inputs: Any) -> dict[str, npt.ArrayLike]:
        if isinstance(inputs, Mapping):
            return dict(inputs)
        arrays = inputs if isinstance(inputs, list | tuple) else [inputs]
        names = [spec.name for spec in self._network.inputs]
        if len(arrays) != len(names):
            raise InputError(
                f"got {len(arrays)} arrays for {len(names)} inputs",
                code=ErrorCode.INPUT_NAME,
                hint=f"the inputs are {', '.join(names) or 'none'}",
            )
        return dict(zip(names, map(np.asarray, arrays), strict=True))


class DovetailBackend(Backend):
    """Dovetail as a backend of ONNX.

    Attributes:
        backends: Ids of dovetail's backends, in order of preference, where the environment does not
            name them.
    """

    backends: ClassVar[Sequence[str]] = ("CpuRef",)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Say yes: what a model needs in vain is an error that names it, not a silent skip."""
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> DovetailRep:
        """Parse, optimize and load a model.

        Raises:
            DovetailError: The model is malformed or unsupported, or some layer has no home.
        """
        named = os.environ.get(BACKENDS_VARIABLE, "")
        backends = [entry.strip() for entry in named.split(",") if entry.strip()] or list(cls.backends)
        return DovetailRep(dovetail.load(parse(model), backends=backends))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[npt.NDArray[Any], ...]:
        """Prepare a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[npt.ArrayLike],
        device: str = "CPU",
        outputs_info: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> tuple[npt.NDArray[Any], ...]:
        """Run one node; `opset_version` is that of its domain, by default the newest."""
        arrays = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        described = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = helper.make_graph([node], node.op_type, described, outputs)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether a device, in ONNX's words, is one that dovetail's CPU backends run on."""
        return device.split(":")[0] == "CPU"


def _with_numpy_dtype(array: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """Show bfloat16 in this version of onnx's type for it; NumPy alone has only its bits."""
    if dtype is not DType.BFLOAT16:
        return array
    shown = helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16)
    # Before 1.19 onnx knew no bfloat16 of NumPy's, and named float32 for it.
    return array.view(shown) if shown.itemsize == array.itemsize else array


is_compatible = DovetailBackend.is_compatible
prepare = DovetailBackend.prepare
run_model = DovetailBackend.run_model
run_node = DovetailBackend.run_node
supports_device = DovetailBackend.supports_device
