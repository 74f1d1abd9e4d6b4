"""Test memory that holds images: each allocation is made for one tensor's shape and type."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fakes.backends import Willing

import dovetail
from dovetail import HOST, BackendError, ErrorCode, IMemoryManager, ITensorHandle, IWorkloadFactory, MemoryDomain, TensorInfo
from dovetail.native import load_backend

X = np.float32([[-1, 2, -3], [4, -5, 6]])


def network() -> dovetail.Network:
    """Make two ReLUs, a reshape, and two more, so that images of two shapes come and go."""
    made = dovetail.Network("images")
    x = made.relu(made.relu(made.input("x", (2, 3)), name="first"), name="second")
    x = made.reshape(x, (3, 2, 1), name="shape")
    made.output(made.relu(made.relu(x, name="third"), name="fourth"), "y")
    return made


# -- behind the table ------------------------------------------------------------------------------


def test_a_table_allocates_an_image_for_each_shape(build: Any) -> None:
    path = build("images.c")
    library = ctypes.CDLL(str(path))
    library.first_size_of.restype = ctypes.c_int64
    with dovetail.Runtime() as runtime:
        backend = load_backend(path)
        with dovetail.load(network(), backend, runtime=runtime, passes=False) as net:
            for factor in (1, -1):
                np.testing.assert_array_equal(net.run({"x": factor * X})["y"], np.maximum(factor * X, 0).reshape(3, 2, 1))
            asked = [(library.rank_of(i), library.first_size_of(i)) for i in range(library.count_images())]
            assert sorted(asked) == [(2, 2), (3, 3)], "in place within a shape, and no view of another"
            assert [step.name for i, step in enumerate(net.memory.steps) if i in net.memory.plan.elided] == []
        assert library.count_alive() == 0


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-DNO_ALLOCATE", "lacks memory_allocate or image_allocate"),
        ("-DOFFSETS=1", "images lie at offsets"),
        ("-DSCRATCH", "no scratch lies in a memory of images"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(build: Any, flag: str, text: str) -> None:
    path = build("images.c", f"images{flag}", flag)
    with dovetail.Runtime() as runtime, pytest.raises(BackendError) as caught:
        dovetail.load(network(), load_backend(path), runtime=runtime, passes=False)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert text in str(caught.value)


# -- in Python -------------------------------------------------------------------------------------

IMAGE = MemoryDomain("Imaging", 0, "image")


class Image(ITensorHandle):
    """An array that is found by a number."""

    domain = IMAGE

    def __init__(self, backend: Imaging, tensor: TensorInfo) -> None:
        self.backend, self.nbytes = backend, tensor.nbytes
        self.values = np.zeros(tensor.sizes, tensor.dtype.numpy)
        self._address = len(backend.infos) + 1
        backend.images[self._address] = self
        backend.infos.append(tensor)

    @property
    def address(self) -> int:
        return self._address

    def release(self) -> None:
        del self.backend.images[self._address]


class Manager(IMemoryManager):
    domain = IMAGE
    pointers = False
    offsets = False
    images = True

    def __init__(self, backend: Imaging) -> None:
        self.backend = backend

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        raise AssertionError("each allocation is made for a tensor")

    def allocate_image(self, tensor: TensorInfo) -> ITensorHandle:
        return self.backend.image_type(self.backend, tensor)


class Step:
    """Computes in images, or between one and the host."""

    def __init__(self, backend: Imaging, function: Any, source: MemoryDomain = IMAGE, target: MemoryDomain = IMAGE) -> None:
        self.backend, self.function, self.source, self.target = backend, function, source, target

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        array = self.found(inputs[0], self.source)
        self.found(outputs[0], self.target)[...] = self.function(array).reshape(outputs[0].shape)

    def found(self, shown: Any, domain: MemoryDomain) -> Any:
        if domain == HOST:
            return shown
        image = self.backend.images[shown.__array_interface__["data"][0]]
        assert (image.values.shape, image.values.dtype) == (shown.shape, shown.dtype)
        return image.values


class Factory(IWorkloadFactory):
    def __init__(self, backend: Imaging) -> None:
        self.backend = backend

    def create_workload(self, layer: Any) -> Any:
        return Step(self.backend, (lambda x: x) if layer.kind == "dovetail.Reshape" else lambda x: np.maximum(x, 0))

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        return Step(self.backend, lambda x: x, source, target)


class Imaging(Willing):
    def __init__(self, image_type: type[Image] = Image) -> None:
        super().__init__("Imaging")
        self.image_type = image_type
        self.images: dict[int, Image] = {}
        self.infos: list[TensorInfo] = []

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        return (IMAGE,)

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        return Manager(self)

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory(self)


def test_a_python_backend_is_told_what_its_images_are_for() -> None:
    backend = Imaging()
    with dovetail.Runtime() as runtime, dovetail.load(network(), backend, runtime=runtime, passes=False) as net:
        np.testing.assert_array_equal(net.run({"x": X})["y"], np.maximum(X, 0).reshape(3, 2, 1))
        assert sorted(info.sizes for info in backend.infos) == [(2, 3), (2, 3), (3, 2, 1), (3, 2, 1)], "two of each take turns"
        assert len(net.memory.plan.arenas) == 4
    assert not backend.images


def test_tensors_that_differ_in_type_share_no_image() -> None:
    made = dovetail.Network("types")
    x = made.input("x", (2, 3))
    for dtype in ("int32", "float32", "int32"):
        x = made.cast(x, dovetail.DType.of(dtype))
    made.output(x, "y")
    backend = Imaging()
    with dovetail.Runtime() as runtime, dovetail.load(made, backend, runtime=runtime, passes=False) as net:
        net.run({"x": X})
    assert sorted(info.dtype.label for info in backend.infos) == ["float32", "int32"]


def test_a_quantization_is_not_part_of_an_image() -> None:
    made = dovetail.Network("quantized")
    scheme = dovetail.Quantization.per_tensor(0.5, 3)
    x = made.input("x", (2, 3), np.int8, scheme)
    made.output(made.relu(made.relu(x)), "y")
    backend = Imaging()
    with dovetail.Runtime() as runtime, dovetail.load(made, backend, runtime=runtime, passes=False) as net:
        net.run({"x": X.astype(np.int8)})
    assert {info.quantization for info in backend.infos} == {None}


def test_an_image_that_is_too_small_is_refused() -> None:
    class Small(Image):
        def __init__(self, backend: Imaging, tensor: TensorInfo) -> None:
            super().__init__(backend, tensor)
            self.nbytes -= 1

    backend = Imaging(Small)
    with (
        dovetail.Runtime() as runtime,
        dovetail.load(network(), backend, runtime=runtime, passes=False) as net,
        pytest.raises(BackendError, match=r"allocate_image\(\) returned memory of 23 bytes, expected 24"),
    ):
        net.run({"x": X})
    assert not backend.images


def test_images_at_offsets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manager, "offsets", True)
    with dovetail.Runtime() as runtime, pytest.raises(BackendError, match="has images, and tensors at offsets"):
        dovetail.load(network(), Imaging(), runtime=runtime, passes=False)
