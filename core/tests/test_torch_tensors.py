"""Test what callers are told who hand tensors of PyTorch over.

The tensors are doubles that raise what those of PyTorch 2.13 raise, as the package is too large for
a test.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import DType, ErrorCode, InputError, Network


class Tensor:
    """A tensor of two ones."""

    def __init__(
        self,
        dtype: str = "float32",
        *,
        device: str = "cpu",
        requires_grad: bool = False,
        layout: str = "strided",
        conj: bool = False,
        neg: bool = False,
    ) -> None:
        self.dtype, self.layout = f"torch.{dtype}", f"torch.{layout}"
        self.device, self.requires_grad = device, requires_grad
        self.is_quantized = dtype == "quint8"
        self._conj, self._neg = conj, neg

    def is_conj(self) -> bool:
        return self._conj

    def is_neg(self) -> bool:
        return self._neg

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0) if self.device == "cpu" else (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        if self._conj:
            raise BufferError("Can't export tensors with the conjugate bit set")
        if self.layout != "torch.strided":
            raise BufferError("Can't export tensors with layout other than torch.strided")
        if self.is_quantized:
            raise BufferError("QUInt/QInt types are not supported by dlpack")
        if self.device != "cpu":
            raise BufferError(f"Cannot pack tensors on {self.device}")
        dtype = self.dtype.removeprefix("torch.")
        if dtype.startswith(("bfloat16", "float8")):  # NumPy's
            raise RuntimeError("Unsupported dtype in DLTensor.")
        return np.ones(2, dtype).__dlpack__()


Tensor.__module__ = "torch"


class Parameter(Tensor):
    """A subclass elsewhere, as `torch.nn.Parameter` is one."""


def network(dtype: Any = np.float32, name: str = "x") -> Network:
    made = Network("small")
    made.output(made.cast(made.input(name, (2,), dtype), np.float32), "y")
    return made


TOLD = [
    ({"requires_grad": True}, "give x.detach()"),
    ({"device": "cuda:0"}, "give x.cpu()"),
    ({"device": "cuda:1", "requires_grad": True}, "give x.detach().cpu()"),
    ({"device": "meta"}, "it has no values: it is on the device 'meta'"),
    ({"layout": "sparse_coo"}, "give x.to_dense()"),
    ({"dtype": "complex64", "conj": True}, "give x.resolve_conj()"),
    ({"dtype": "quint8"}, "give x.dequantize()"),
    ({"dtype": "float8_e4m3fn", "device": "mps:0"}, "give x.cpu().float()"),
    (
        {"dtype": "bfloat16", "device": "cuda:0", "requires_grad": True},
        "give x.detach().cpu().float() to an input of float32, or x.detach().cpu().view(torch.uint16) for one of bfloat16",
    ),
    ({"neg": True}, "give x.resolve_neg()"),
]


@pytest.mark.parametrize(("given", "hint"), TOLD)
@pytest.mark.parametrize("kind", [Tensor, Parameter])
def test_tensors_that_numpy_cannot_read(given: dict[str, Any], hint: str, kind: type[Tensor]) -> None:
    tensor = kind(**given)
    with dovetail.load(network(), "CpuRef") as net:
        for call in (lambda: net.run({"x": tensor}), lambda: net(tensor), lambda: net.bind({"x": tensor})):
            with pytest.raises(InputError, match=r"^\[INPUT_DTYPE\] 'x': its (memory|signs)") as caught:
                call()
            assert caught.value.hint == hint
            assert caught.value.code is ErrorCode.INPUT_DTYPE


def test_tensors_that_numpy_can_read() -> None:
    with dovetail.load(network(), "CpuRef") as net:
        assert (net.run({"x": Tensor()})["y"] == 1).all()
        assert (net(Parameter()) == 1).all()
        assert (net.bind({"x": Tensor()}).run()["y"] == 1).all()


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        (np.float32, "convert it: x.to(torch.float32)"),
        (np.bool_, "convert it: x.to(torch.bool)"),
        (DType.BFLOAT16, "convert it: x.to(torch.bfloat16).view(torch.uint16)"),
    ],
)
def test_tensors_of_another_type(dtype: Any, hint: str) -> None:
    with dovetail.load(network(dtype), "CpuRef") as net, pytest.raises(InputError) as caught:
        net.run({"x": Tensor("float64")})
    assert caught.value.hint == hint


def test_names_that_are_no_variables() -> None:
    with dovetail.load(network(name="a/b:0"), "CpuRef") as net, pytest.raises(InputError) as caught:
        net.run({"a/b:0": Tensor(requires_grad=True)})
    assert caught.value.hint == "give array.detach()"


def test_bits_of_bfloat16_are_taken() -> None:
    with dovetail.load(network(DType.BFLOAT16), "CpuRef") as net:
        assert (net.run({"x": np.full(2, 0x3FC0, np.uint16)})["y"] == 1.5).all()  # 1.5 in bfloat16


def test_arrays_of_other_libraries() -> None:
    class Elsewhere:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with dovetail.load(network(), "CpuRef") as net, pytest.raises(InputError, match="on a device") as caught:
        net.run({"x": Elsewhere()})
    assert "np.asarray(array)" in str(caught.value.hint)
    with dovetail.load(network(), "CpuRef") as net, pytest.raises(InputError) as caught:
        net.run({"x": [1.0, 2.0]})
    assert "np.asarray(values, np.float32)" in str(caught.value.hint)


def test_torch_is_not_imported() -> None:
    program = """
import sys
import numpy as np
import dovetail
sys.modules["torch"] = None  # importing it is an error
network = dovetail.Network("small")
network.output(network.relu(network.input("x", (2,))), "y")
with dovetail.load(network, "CpuRef") as net:
    try:
        net.run({"x": memoryview(b"ab")})
    except dovetail.InputError as error:
        print(error.code)
    print(net.run({"x": np.ones(2, np.float32)})["y"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "INPUT_DTYPE\n[1. 1.]\n"
