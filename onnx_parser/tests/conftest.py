"""The cases of ONNX's own backend suite, as the tests need them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper


@dataclass(frozen=True)
class Case:
    """One model, what it is fed and what it should answer, per data set."""

    kind: str
    name: str
    model: onnx.ModelProto
    data: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


@pytest.fixture(scope="session")
def suite_cases() -> list[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's opinion of how the suite makes its numbers
        from onnx.backend.test import loader

        return [*_small(loader), *_light(loader)]


def _small(loader: Any) -> Iterator[Case]:
    for kind in ("node", "simple", "pytorch-operator", "pytorch-converted"):
        for case in loader.load_model_tests(kind=kind):
            if case.model is None:  # the other kinds, and the nodes too in packages before 1.21
                yield _stored(kind, case)
                continue
            data = [([_value(v) for v in inputs], [_value(v) for v in outputs]) for inputs, outputs in case.data_sets]
            yield Case(kind, case.name, case.model, data, case.rtol, case.atol)


def _stored(kind: str, case: Any) -> Case:
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    constants = {tensor.name for tensor in model.graph.initializer}
    fed = [entry.type for entry in model.graph.input if entry.name not in constants]
    wanted = [entry.type for entry in model.graph.output]
    sets = sorted(folder.glob("test_data_set_*"))
    data = [(_load(part, "input", fed), _load(part, "output", wanted)) for part in sets]
    return Case(kind, case.name, model, data, case.rtol, case.atol)


def _light(loader: Any) -> Iterator[Case]:
    for case in loader.load_model_tests(kind="real"):
        path = Path(loader.DATA_DIR) / "light" / Path(case.url or "").name
        if not path.is_file():
            continue
        model = onnx.load(path)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [_ramp(entry) for entry in model.graph.input if entry.name not in constants]
        outputs = [_load_tensor(path.with_name(f"{path.stem}_output_{i}.pb")) for i in range(len(model.graph.output))]
        yield Case("light", case.name, model, [(inputs, outputs)], case.rtol, case.atol)


def _ramp(entry: onnx.ValueInfoProto) -> Any:
    """Return the numbers, rising from 0 to 1, that the light models' outputs were made from."""
    shape = [d.dim_value if d.HasField("dim_value") else 1 for d in entry.type.tensor_type.shape.dim]
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def _load(folder: Path, what: str, types: list[onnx.TypeProto]) -> list[Any]:
    return [_load_value(folder / f"{what}_{i}.pb", described) for i, described in enumerate(types)]


def _load_value(path: Path, described: onnx.TypeProto) -> Any:
    if described.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
    if described.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes()))
    return _load_tensor(path)


def _load_tensor(path: Path) -> Any:
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def _value(value: Any) -> Any:
    """Return what a trip through a file would make of a value."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple):
        return [_value(entry) for entry in value]
    return np.asarray(value) if isinstance(value, np.generic) else value
