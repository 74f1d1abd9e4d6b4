"""Define tiny networks with known results, on which a backend is checked before it is used.

The first that the backend takes must come out right.

The numbers were worked out by hand. They are exact in every element type involved, whatever the
order of the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..discovery.backend_rows import BackendState
from ..discovery.reasons import ReasonCode, Refused
from ..graph.tensor import Quantization
from ..ground.errors import BackendUnavailableError, DovetailError, PlacementError
from ..ground.foreign_text import described
from ..ground.host_exceptions import is_of_host
from ..layers.elementwise import BinaryOperation, ElementwiseBinary
from ..layers.network import Network

if TYPE_CHECKING:
    from ..contract.interfaces import IBackend


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """One network.

    Attributes:
        name: For reports.
        build: Makes it and returns what comes out.
        feeds: Inputs by name.
        expected: What comes out.
    """

    name: str
    build: Callable[[Network], Any]
    feeds: dict[str, Any]
    expected: Any


def _float(*values: Any) -> Any:
    return np.array(values, np.float32)


_A = _float([1.0, -2.0, 3.5, 0.25], [-8.0, 16.0, 0.0, 1.5])
_B = _float([0.5, 2.0, -1.5, 4.0], [2.0, -0.5, 7.0, -3.0])
_PICTURE = _float([[[1.0, 2.0], [3.0, 4.0]], [[-1.0, 0.5], [0.0, 2.0]]])  # one of two channels: [1, 2, 2, 2]
_A8 = np.array([0, 1, -1, 10, -10, 127, -128, 5, 50, -50, 7, -7, 100, -100, 64, -64], np.int8).reshape(1, 1, 1, 16)
_B8 = np.array([2, 3, 1, -8, 12, 127, -128, 2, 52, 52, 3, 3, -98, 102, 2, 2], np.int8).reshape(1, 1, 1, 16)


def _int8_add(net: Network) -> Any:
    """Add in steps of 0.5 with zero points 0, 2 and -1: a + (b - 2) - 1, within -128 and 127."""
    a = net.input("a", (1, 1, 1, 16), "int8", Quantization.per_tensor(0.5, 0))
    b = net.input("b", (1, 1, 1, 16), "int8", Quantization.per_tensor(0.5, 2))
    return net.add(ElementwiseBinary(operation=BinaryOperation.ADD), a, b, quantization=Quantization.per_tensor(0.5, -1)).output


def _int8_convolution(net: Network) -> Any:
    """Turn sixteen channels round and add 2: (0.5 a) * (0.25 * 2) + 0.125 * 4 in steps of 0.25."""
    a = net.input("a", (1, 1, 1, 16), "int8", Quantization.per_tensor(0.5))
    weights = (2 * np.eye(16, dtype=np.int8)[::-1]).reshape(16, 1, 1, 16)
    return net.convolution2d(
        a,
        net.constant(weights, quantization=Quantization.per_tensor(0.25)),
        net.constant(np.full(16, 4, np.int32), quantization=Quantization.per_tensor(0.125)),
        layout="NHWC",
        quantization=Quantization.per_tensor(0.25),
    )


KNOWN_ANSWERS = (
    KnownAnswer(
        "add, float32",
        lambda net: net.addition(net.input("a", (2, 4)), net.input("b", (2, 4))),
        {"a": _A, "b": _B},
        _float([1.5, 0.0, 2.0, 4.25], [-6.0, 15.5, 7.0, -1.5]),
    ),
    KnownAnswer(
        "relu, float32",
        lambda net: net.relu(net.input("a", (2, 4))),
        {"a": _A},
        _float([1.0, 0.0, 3.5, 0.25], [0.0, 16.0, 0.0, 1.5]),
    ),
    KnownAnswer(
        "multiplication, float32",
        lambda net: net.multiplication(net.input("a", (2, 4)), net.input("b", (2, 4))),
        {"a": _A, "b": _B},
        _float([0.5, -4.0, -5.25, 1.0], [-16.0, -8.0, 0.0, -4.5]),
    ),
    KnownAnswer(
        "fully connected, float32",
        lambda net: net.fully_connected(
            net.input("a", (2, 4)), _float([1.0, 0.0, 2.0, -4.0], [0.5, 0.25, -1.0, 8.0]), _float(10.0, -1.0)
        ),
        {"a": _A},
        _float([17.0, -2.5], [-4.0, 11.0]),
    ),
    KnownAnswer(
        "convolution 1x1, float32",
        lambda net: net.convolution2d(net.input("a", (1, 2, 2, 2)), _float(2.0, 4.0, -1.0, 0.5).reshape(2, 2, 1, 1)),
        {"a": _PICTURE},
        _float([[[-2.0, 6.0], [6.0, 16.0]], [[-1.5, -1.75], [-3.0, -3.0]]]),
    ),
    KnownAnswer(
        "add, int8",
        _int8_add,
        {"a": _A8, "b": _B8},
        np.array([-1, 1, -3, -1, -1, 127, -128, 4, 99, -1, 7, -7, -1, -1, 63, -65], np.int8).reshape(1, 1, 1, 16),
    ),
    KnownAnswer(
        "convolution 1x1, int8",
        _int8_convolution,
        {"a": _A8},
        np.array([-62, 66, -98, 102, -5, 9, -48, 52, 7, -126, 127, -8, 12, 1, 3, 2], np.int8).reshape(1, 1, 1, 16),
    ),
)


def self_test(backend: IBackend) -> tuple[str, bool]:
    """Run the first of the networks that a backend takes, by itself, as production would.

    It goes through the same questions.

    Returns:
        What was run, or why nothing was; and whether a device was missing, so that it should be run
        another time.

    Raises:
        Refused: `SELF_TEST_FAILED`: the result is wrong, or running it failed.
        BackendUnavailableError: It says that its device is broken.
    """
    from ..optimizer import optimize
    from ..runtime import Runtime

    for answer in KNOWN_ANSWERS:
        net = Network(f"self-test {answer.name}")
        net.output(answer.build(net), "y")
        try:
            optimized = optimize(net, [backend], fallback=False, tuned=False)
        except PlacementError:
            continue
        except DovetailError as error:
            if is_of_host(error):
                raise
            raise _failed(answer, error.message) from error
        try:
            with Runtime(threads=1) as runtime:
                result = runtime.load(optimized).run(answer.feeds)["y"]
        except BackendUnavailableError as error:
            if error.details.get("state") == BackendState.BROKEN:  # which it will be another time too
                raise
            return f"self-test not run: {error.message}", True
        except Exception as error:
            if is_of_host(error):
                raise
            raise _failed(answer, described(error)) from error
        wrong = difference(answer, result)
        if wrong:
            raise _failed(answer, wrong)
        return f"self-test passed: {answer.name}", False
    return "self-test not run: it takes none of the networks whose results are known", False


def difference(answer: KnownAnswer, result: Any) -> str:
    """Say what is wrong with a result, or return an empty text."""
    found, expected = np.asarray(result), answer.expected
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} {list(found.shape)} instead of {expected.dtype} {list(expected.shape)}"
    # Some devices compute float32 in shorter formats, of which bfloat16 is the coarsest: 8 bits, so
    # 2^-8 at each of few steps.
    tolerance = 2.0**-6 * np.maximum(np.abs(expected.astype(np.float64)), 1) if found.dtype.kind == "f" else 0
    wrong = ~(np.abs(found.astype(np.float64) - expected.astype(np.float64)) <= tolerance)
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"element {list(place)} is {found[place]!s}, not {expected[place]!s}; {int(wrong.sum())} of {wrong.size} are wrong"


def _failed(answer: KnownAnswer, text: str) -> Refused:
    return Refused(ReasonCode.SELF_TEST_FAILED, f"self-test {answer.name!r}: {text}", test=answer.name)
