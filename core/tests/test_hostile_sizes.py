"""Test sizes, attributes and values that no model should have.

They give a typed error, or infos that every kernel can compute with.

`hostile` draws whole layers at random, from a seed; what it once found has a test of its own below.
"""

from __future__ import annotations

import dataclasses
import os
import random
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np
import pytest

from dovetail import layers as kinds
from dovetail.graph.descriptor import Descriptor, descriptor_class
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import MAX_RANK, DataLayout, OpaqueLayout, Quantization, TensorInfo
from dovetail.ground.errors import DovetailError, ErrorCode, GraphError
from dovetail.ground.limits import ADDRESSABLE
from dovetail.layers.network import Network
from dovetail.optimizer.passes.infer_and_fold import InferAndFold

KINDS = sorted(
    (kind for kind in vars(kinds).values() if isinstance(kind, type) and issubclass(kind, Descriptor) and kind.kind),
    key=lambda kind: kind.kind,
)
GATES: dict[type[Descriptor], int] = {kinds.Rnn: 1, kinds.Gru: 3, kinds.Lstm: 4}
"""Recurrent kinds, whose operands rarely fit by chance."""
LAYERS = int(os.environ.get("DOVETAIL_HOSTILE_LAYERS", "250"))
"""Layers of each kind; a long run takes more of them."""

MILD = (0, 1, 1, 1, 2, 2, 3, 4, 5, -1, -2)
WILD = (-4, 64, 65, 1000, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**47, 2**62, 2**63 - 1, -(2**31), -(2**62), -(2**63), 2**64)
NUMBERS = (0.0, 1.0, 0.5, 2.0, -1.0, -0.0, 1e-300, 1e300, 3.4e38, float("inf"), float("-inf"), float("nan"), 1e-45, 2.0**63)

_BYTES = (DType.INT8, Quantization.per_tensor(0.5))
_CELL = (DType.INT16, Quantization.per_tensor(2.0**-11))
RARELY_FITTING: dict[type[Descriptor], tuple[tuple[Any, ...], ...]] = {
    kinds.DetectionPostProcess: (((1, 2, 4),), ((1, 2, 2),), ((2, 4),)),
    kinds.QuantizedLstm: (
        *(((2, 2, 5), *_BYTES), ((2, 2), *_BYTES), ((2, 2), *_CELL)),
        *[((2, 5), *_BYTES)] * 3,
        *[((2, 2), *_BYTES)] * 3,
        *[((2,), DType.INT32)] * 3,
    ),
    kinds.QuantizedSvdf: (((2, 5), *_BYTES), ((2, 8), *_CELL), ((4, 5), *_BYTES), ((4, 2), *_CELL)),
}
"""What inputs are that fit one another, of kinds where those drawn hardly ever do."""


class Draw:
    """Random layers, most of them harmless, so that the rest is not refused at the first look."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.wildness = self.random.choice((0.0, 0.05, 0.2, 0.5))
        self.per_channel = self.random.random() < 0.2

    def integer(self) -> int:
        return self.random.choice(WILD if self.random.random() < self.wildness else MILD)

    def size(self) -> int:
        return abs(
            self.random.choice((2**10, 2**23, 2**31, 2**46)) if self.random.random() < self.wildness / 2 else self.integer() % 6
        )

    def number(self) -> float:
        return self.random.choice(NUMBERS) if self.random.random() < self.wildness else self.random.choice((0.5, 1.0, 2.0, 3.0))

    def count(self) -> int:
        return (
            self.random.choice((65, 300))
            if self.random.random() < self.wildness / 4
            else self.random.choice((0, 1, 1, 2, 2, 3, 4))
        )

    def shape(self) -> tuple[int, ...]:
        rank = (
            self.random.choice((MAX_RANK, MAX_RANK + 1))
            if self.random.random() < 0.02
            else self.random.choice((0, 1, 2, 3, 4, 4, 4, 4))
        )
        return tuple(self.size() if rank < 9 else 1 for _ in range(rank))

    def fitting(self, shared: tuple[int, ...]) -> tuple[int, ...]:
        """Return a shape that a second input beside one of shape `shared` often has.

        Such inputs are weights, a bias, scales, indices, updates.
        """
        if self.per_channel:
            return shared[1:2]
        if len(shared) != 4 or self.random.random() < 0.4:
            return self.random.choice(
                ((2,), shared[-1:], shared[1:2], shared[:-1], (*shared[:-1], 1), (2, *shared[-1:]), (1, 1))
            )
        first, last, kernel = shared[1], shared[3], self.random.choice(((1, 1), (2, 2), (3, 1)))
        return self.random.choice(
            ((2, first, *kernel), (first, 1, *kernel), (2, *kernel, last), (1, *kernel, last), (first,), (2,))
        )

    def of_sequences(self, kind: type[Descriptor], name: str) -> tuple[int, ...]:
        """Return the shape that an operand of a recurrent kind often has."""
        rows = 2 * GATES[kind]
        shapes = {"input": (2, 2, 5), "weights": (rows, 5), "recurrent_weights": (rows, 2), "lengths": (2,)}
        shapes |= dict.fromkeys(("bias", "recurrent_bias", "normalization"), (rows,))
        shapes |= {"peepholes": (rows - 2,), "projection_bias": (2,)}
        return shapes.get(name, (2, 2)) if self.random.random() < 0.95 else self.shape()

    def attribute(self, annotation: Any) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (types.UnionType, typing.Union):
            return self.attribute(self.random.choice(arguments))
        if origin is tuple and arguments[-1] is Ellipsis:
            return tuple(self.attribute(arguments[0]) for _ in range(self.count()))
        if origin is tuple and self.random.random() < 0.6:
            return tuple(self.random.choice((1, 1, 2, 3)) for _ in arguments)
        if origin is tuple:
            return tuple(self.attribute(one) for one in arguments)
        if annotation is Quantization:
            axis = None if self.random.random() < 0.5 else self.integer()
            count = 1 if axis is None else self.count() or 1
            return Quantization(tuple(abs(self.number()) or 1.0 for _ in range(count)), (self.integer(),), axis)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            return self.random.choice(list(annotation))
        plain: dict[Any, Callable[[], Any]] = {
            int: self.integer,
            float: self.number,
            bool: lambda: self.random.random() < 0.5,
            type(None): lambda: None,
        }
        return plain[annotation]()

    def descriptor(self, kind: type[Descriptor]) -> Descriptor:
        hints = typing.get_type_hints(kind)
        fields: Any = dataclasses.fields(typing.cast(Any, kind))
        names = [field.name for field in fields if self.random.random() < 0.5 or field.default is dataclasses.MISSING]
        return kind(**{name: self.attribute(hints[name]) for name in names})

    def value(self, dtype: DType) -> Any:
        """A small constant, such as a target shape."""
        rank = self.random.choice((0, 1, 1, 1, 2))
        shape = tuple(self.count() for _ in range(rank))
        if dtype.is_float and dtype is not DType.BFLOAT16:
            with np.errstate(all="ignore"):
                return np.array([self.number() for _ in range(int(np.prod(shape)))], "f8").reshape(shape).astype(dtype.numpy)
        numbers = [self.integer() % 2**64 for _ in range(int(np.prod(shape)))]
        return np.array(numbers, np.uint64).reshape(shape).astype(dtype.numpy)

    def sources(self, network: Network, kind: type[Descriptor], shared: tuple[int, ...], dtype: DType) -> Iterator[Any]:
        if kind in RARELY_FITTING and self.random.random() < 0.7:
            for index, given in enumerate(RARELY_FITTING[kind]):
                yield network.input(f"input_{index}", *given)
            return
        count = self.random.randint(kind.required_inputs, max(kind.required_inputs, len(kind.input_names) + 2 * kind.variadic))
        for index in range(count):
            is_value = index in kind.value_inputs
            if index >= kind.required_inputs and self.random.random() < 0.3:
                yield None
                continue
            draw = self.random.random()
            mine = DType.INT64 if is_value and draw < 0.9 else self.random.choice(list(DType)) if draw < 0.1 else dtype
            positions = {"indices", "lengths"} & set(kind.input_names)
            if positions and index == kind.input_names.index(positions.pop()):
                mine = DType.INT64
            if kind in GATES:
                yield network.input(f"input_{index}", self.of_sequences(kind, kind.input_names[index]), mine)
            elif is_value or self.random.random() < (0.0 if self.per_channel else 0.4):
                yield network.constant(self.value(mine), dtype=mine)
            else:
                draw = self.random.random()
                strays = 0.0 if self.per_channel else 0.3
                shape = shared if index == 0 or draw < strays else self.shape() if draw < 0.1 + strays else self.fitting(shared)
                yield network.input(f"input_{index}", shape, mine)


def refusal_of(function: Callable[[], object]) -> DovetailError | None:
    """Return the typed error that a call raises, None if none; anything else is raised."""
    try:
        function()
    except DovetailError as error:
        str(error)
        if error.__cause__ is not None:
            raise error.__cause__ from None  # a kind of the core that raised something else, and did not refuse by itself
        return error
    return None


def assert_sound(network: Network) -> None:
    for layer in network:
        for slot in layer.outputs:
            if slot.info is not None:
                slot.info.check()
                assert len(slot.info.shape) <= MAX_RANK
                assert all(type(size) is int and 0 <= size < ADDRESSABLE for size in slot.info.shape)
                assert slot.info.nbytes < ADDRESSABLE


def hostile(kind: type[Descriptor], seed: int) -> bool:
    """Build, infer and fold a layer drawn at random; True if it was not refused."""
    draw = Draw(seed)
    network = Network("hostile")

    def build() -> None:
        dtype = draw.random.choice((DType.FLOAT32, DType.FLOAT32, DType.INT64, *DType))
        layer = network.add(draw.descriptor(kind), *draw.sources(network, kind, draw.shape(), dtype))
        for slot in layer.outputs[:4]:
            network.output(slot)
        InferAndFold().run(network)

    accepted = refusal_of(build) is None
    assert_sound(network)
    return accepted


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_layers_drawn_at_random(kind: type[Descriptor]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accepted = 0
        for seed in range(LAYERS):
            try:
                accepted += hostile(kind, seed)
            except Exception as error:
                error.add_note(f"hostile({kind.__name__}, {seed})")
                raise
    assert accepted, "the draws are so wild that none is a layer: they show nothing"


BIG = 2**62
IMAGE = (1, 1, 3, 3)
MAX, AVERAGE = kinds.PoolingFunction.MAX, kinds.PoolingFunction.AVERAGE


def refused(descriptor: Descriptor, *inputs: Any) -> DovetailError:
    """Return the error of a layer whose inputs are shapes, or arrays for constants."""
    network = Network("refused")
    sources = [
        network.input(f"x{i}", given) if isinstance(given, tuple) else network.constant(given) for i, given in enumerate(inputs)
    ]

    def build() -> None:
        network.output(network.add(descriptor, *sources).outputs[0], "y")
        InferAndFold().run(network)

    error = refusal_of(build)
    assert error is not None, f"{descriptor} was accepted"
    assert_sound(network)
    return error


@pytest.mark.parametrize(
    ("descriptor", "inputs"),
    [
        (kinds.BroadcastTo(shape=(-4, 3)), [(1, 3)]),
        (kinds.BroadcastTo(shape=(-4, 1, 3)), [(1, 3)]),
        (kinds.BroadcastTo(), [(1, 3), np.array([-4, 3])]),
        (kinds.Reshape(shape=(-4, 3)), [(4, 3)]),
        (kinds.Reshape(shape=(-1, -1)), [(4, 3)]),
        (kinds.Tile(repeats=(-1, 1)), [(4, 3)]),
        (kinds.Tile(), [(4, 3), np.array([1, -(2**63)])]),
        (kinds.Fill(shape=(-4,)), []),
        (kinds.Fill(), [np.array([3, -4])]),
        (kinds.OneHot(depth=-4), [np.zeros(2, np.int64), (2,)]),
        (kinds.Pad(before=(-3, 0), after=(-2, 0)), [(4, 3)]),
        (kinds.Pad(), [(4, 3), np.array([-5, 0, 0, 0])]),
        (kinds.Resize(), [(4, 3), np.array([-1.0, 1.0], np.float32)]),
        (kinds.Resize(sizes=(-4, 3)), [(4, 3)]),
        (kinds.Split(parts=2, sizes=(5, -1)), [(4, 3)]),
        (kinds.TopK(k=-1), [(4, 3)]),
        (kinds.TransposeConvolution2d(output_size=(-4, 3)), [IMAGE, (1, 1, 2, 2)]),
        (kinds.TransposeConvolution2d(padding=(9, 0, 0, 0)), [IMAGE, (1, 1, 2, 2)]),
        (kinds.Convolution2d(padding=(-1, 0, 0, 0)), [IMAGE, (1, 1, 1, 1)]),
        (kinds.Pooling2d(function=MAX, size=(2, 2), padding=(0, 0, -1, 0)), [IMAGE]),
    ],
    ids=str,
)
def test_a_negative_size_is_refused(descriptor: Descriptor, inputs: list[Any]) -> None:
    refused(descriptor, *inputs)


@descriptor_class
class Vendors(Descriptor, kind="test.Vendors"):
    """A vendor's kind that infers whatever it is told to."""

    required_inputs = 0
    answer: Any

    def infer(self, inputs: Any) -> Any:
        return self.answer() if callable(self.answer) else [TensorInfo(self.answer, DType.FLOAT32)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((3, -4), "-4"),
        ((3, np.int64(4)), "int64"),
        ((3, 4.0), "4.0"),
        ((True, 3), "True"),
        ((None,), "None"),
        ([3, 4], "[3, 4]"),
        ((10**5000,), "2^"),
        ((-(10**5000),), "2^"),
        ((1,) * (MAX_RANK + 1), f"{MAX_RANK + 1} axes"),
        ((2**62,) * 100_000, "100000 axes"),
        ((2**45,), "140737488355328 bytes"),
        ((0, 2**31, 2**31), "were it not empty"),
        (lambda: None, "infer() raised TypeError"),
        (lambda: [None], "infer() raised AttributeError"),
        (list, "infer() raised ValueError"),
        (lambda: 1 // 0, "infer() raised ZeroDivisionError"),
        (lambda: np.empty(2**62), "infer() r"),
        (lambda: [TensorInfo((2,), DType.INT8).with_opaque(OpaqueLayout("blocked", -64))], "-64 bytes"),
        (lambda: [TensorInfo((2,), DType.INT8).with_opaque(OpaqueLayout("blocked", 2**50))], "1125899906842624 bytes"),
        (lambda: [TensorInfo((2,), DType.INT8).with_opaque(OpaqueLayout("blocked", 64, 48))], "alignment of 48"),
    ],
)
def test_what_a_vendors_kind_infers_is_checked(answer: Any, said: str) -> None:
    network = Network()
    with pytest.raises(GraphError) as caught:
        network.add(Vendors(answer=answer), name="theirs")
    assert said in str(caught.value)
    assert "layer 'theirs' (test.Vendors)" in caught.value.message
    assert caught.value.details["layer"] == "theirs"
    assert caught.value.hint


def test_lack_of_memory_in_a_kind_has_its_code() -> None:
    def lack() -> Any:
        raise MemoryError("all gone")

    with pytest.raises(GraphError) as caught:
        Network().add(Vendors(answer=lack))
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY
    assert "all gone" in caught.value.message


def test_the_largest_rank_is_accepted() -> None:
    network = Network()
    x = network.input("x", (1,) * MAX_RANK)
    assert network.reshape(x, (1,) * MAX_RANK).known_info.rank == MAX_RANK
    for build in (
        lambda: network.input("y", (1,) * (MAX_RANK + 1)),
        lambda: network.reshape(x, (1,) * (MAX_RANK + 1)),
        lambda: network.expand_dims(x, 0),
        lambda: network.expand_dims(x, list(range(100_000))),
        lambda: network.broadcast_to(x, (1,) * (MAX_RANK + 1)),
        lambda: network.stack([x, x]),
        lambda: network.one_hot(network.cast(x, DType.INT64), 3, np.zeros(2, np.float32)),
        lambda: network.gather(x, np.zeros((1, 1), np.int64)),
    ):
        error = refusal_of(build)
        assert error is not None
        assert "axes" in error.message + str(error.hint)


CONVOLUTIONS = (kinds.Convolution2d, kinds.DepthwiseConvolution2d)
WINDOWS = [
    *(
        (kind, attributes)
        for kind in CONVOLUTIONS
        for attributes in (
            {"padding": (2**63 - 4, 0, 0, 0)},
            {"padding": (BIG, 0, BIG, 0)},
            {"padding": (0, 0, 0, 2**40)},
            {"dilation": (BIG, 1), "padding": (2**63 - 8, 0, 0, 0)},
            {"dilation": (2**63 - 1, 1)},
            {"dilation": (1, 2**31)},
            {"dilation": (2**31 - 1, 2**31 - 1)},
            {"stride": (2**63 - 1, 1)},
            {"stride": (2**31 - 1, 2**31 - 1)},
            {"stride": (0, 1)},
            {"stride": (-1, 1)},
            {"dilation": (0, 1)},
            {"padding": (2**24, 2**24, 2**24, 2**24)},
            {"stride": (0, 1), "auto_padding": kinds.AutoPadding.SAME_UPPER},
            {"dilation": (BIG, 1), "auto_padding": kinds.AutoPadding.SAME_LOWER},
        )
    ),
    (kinds.Convolution2d, {"groups": 0}),
    (kinds.Convolution2d, {"groups": 2**63 - 1}),
    (kinds.TransposeConvolution2d, {"groups": 0}),
    (kinds.TransposeConvolution2d, {"stride": (2**24, 2**24)}),
    (kinds.TransposeConvolution2d, {"stride": (2**31, 1)}),
    (kinds.TransposeConvolution2d, {"stride": (2**63 - 1, 1)}),
    (kinds.TransposeConvolution2d, {"dilation": (BIG, 1), "padding": (BIG, 0, 0, 0)}),
    (kinds.TransposeConvolution2d, {"padding": (2**31 - 1, 0, 0, 0), "dilation": (2**31 - 1, 2**31 - 1)}),
    (kinds.TransposeConvolution2d, {"output_padding": (BIG, 0), "padding": (BIG, 0, 0, 0)}),
    (kinds.TransposeConvolution2d, {"output_padding": (-1, 0)}),
    (kinds.TransposeConvolution2d, {"output_size": (2**63 - 1, 3)}),
    (kinds.TransposeConvolution2d, {"stride": (0, 1), "auto_padding": kinds.AutoPadding.SAME_UPPER}),
    (kinds.Pooling2d, {"function": AVERAGE, "size": (2**63 - 1, 1), "padding": (2**63 - 4, 0, 0, 0)}),
    (kinds.Pooling2d, {"function": AVERAGE, "size": (2, 2), "dilation": (BIG, 1), "padding": (BIG, 0, 0, 0)}),
    (kinds.Pooling2d, {"function": MAX, "size": (2**31 - 1, 2**31 - 1), "padding": (2**31 - 2,) * 4}),
    (kinds.Pooling2d, {"function": MAX, "size": (2, 2), "stride": (2**63 - 1, 1)}),
    (kinds.Pooling2d, {"function": MAX, "size": (0, 2), "auto_padding": kinds.AutoPadding.SAME_UPPER}),
    (kinds.Pooling2d, {"function": MAX, "size": (2, 2), "stride": (0, 1), "auto_padding": kinds.AutoPadding.SAME_UPPER}),
    (kinds.Pooling2d, {"function": kinds.PoolingFunction.LP, "size": (2, 2), "p": 0}),
    (kinds.GlobalPooling, {"function": kinds.PoolingFunction.LP, "p": -1}),
    (kinds.LocalResponseNormalization, {"size": 2**63 - 1}),
]


@pytest.mark.parametrize(("kind", "attributes"), WINDOWS)
def test_windows_that_overflow_are_refused(kind: type[Descriptor], attributes: dict[str, Any]) -> None:
    reads_weights = len(kind.input_names) > 1
    refused(kind(**attributes), IMAGE, *[(1, 1, 2, 2)] * reads_weights)


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"padding": (2**20, 0, 2**20, 0)}, (1, 1, 2**21 + 2, 2)),
        ({"dilation": (2**20, 1), "padding": (2**19, 0, 2**19, 0)}, (1, 1, 3, 2)),
        ({"stride": (2**20, 2**10)}, (1, 1, 1, 1)),
    ],
)
def test_large_windows_that_fit_are_accepted(kind: Any, attributes: dict[str, Any], expected: tuple[int, ...]) -> None:
    network = Network()
    x, weights = network.input("x", IMAGE), network.input("w", (1, 1, 2, 2))
    assert network.add(kind(**attributes), x, weights).output.shape == expected


def test_the_windows_of_large_images_are_accepted() -> None:
    """A dilation and a stride as they are met, over the largest images that are met."""
    network = Network()
    x = network.input("x", (1, 64, 4096, 4096))
    deep = kinds.Convolution2d(dilation=(64, 64), padding=(64,) * 4, stride=(4, 4))
    assert network.add(deep, x, network.input("w", (64, 64, 3, 3))).output.shape == (1, 64, 1024, 1024)
    audio = network.input("audio", (1, 1, 1, 2**28))
    assert network.add(kinds.Convolution2d(stride=(1, 160)), audio, network.input("a", (1, 1, 1, 400))).output.shape[3] > 0


def test_a_stride_over_a_single_element_is_none() -> None:
    """Splitting a transposed convolution into phases of a stride of 2^24 took 35 s and 4 GB."""
    network = Network()
    weights = network.input("w", (1, 1, 3, 2))
    for stride, size, expected in (
        ((2**24, 7), (1, 5), (3, 7)),
        ((2**31 - 1, 2**31 - 1), (1, 1), (3, 2)),
        ((2, 1), (1, 1), (2, 1)),
    ):
        x = network.input(f"x{stride}", (1, 1, *size))
        layer = network.add(kinds.TransposeConvolution2d(stride=stride), x, weights)
        assert layer.descriptor.stride == expected
        assert layer.output.shape == (1, 1, 3, (size[1] - 1) * stride[1] + 2)
    same = kinds.TransposeConvolution2d(stride=(8, 8), auto_padding=kinds.AutoPadding.SAME_UPPER)
    assert network.add(same, network.input("single", (*IMAGE[:2], 1, 1)), weights).output.shape == (1, 1, 8, 8)


@pytest.mark.parametrize(
    ("begin", "end", "stride"),
    [(0, 9, 2**63 - 1), (-1, -9, -(2**63)), (2**63 - 1, -(2**63), -1), (-(2**63), 2**63 - 1, 1), (1, 2**62, 2**40), (4, 0, -7)],
)
def test_slices_near_the_end_of_64_bits(begin: int, end: int, stride: int) -> None:
    descriptor = kinds.StridedSlice(begin=(begin,), end=(end,), stride=(stride,))
    for size in (0, 1, 5):
        values = np.arange(size, dtype=np.float32)
        (first, step, count) = descriptor.ranges((size,))[0]
        assert abs(step) <= max(size, 1)
        assert [first + i * step for i in range(count)] == list(range(size))[begin:end:stride]
        found = descriptor.evaluate([TensorInfo.of_array(values)], [values])
        assert found is not None
        np.testing.assert_array_equal(found[0], values[begin:end:stride])


@pytest.mark.parametrize("k", [2**63 - 1, -(2**63), 4, -3, 3])
@pytest.mark.parametrize("upper", [False, True])
def test_diagonals_beyond_a_matrix(k: int, *, upper: bool) -> None:
    network = Network()
    values = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    layer = network.add(kinds.Trilu(upper=upper), values, np.int64(k))
    descriptor = layer.descriptor
    assert isinstance(descriptor, kinds.Trilu)
    assert -3 <= descriptor.k <= 4
    rows, columns = np.indices((3, 4))
    kept = (columns - rows >= k) if upper else (columns - rows <= k)
    found = descriptor.evaluate(layer.input_infos, [values])
    assert found is not None
    np.testing.assert_array_equal(found[0], np.where(kept, values, 0))


@pytest.mark.parametrize(
    ("descriptor", "inputs", "code"),
    [
        (kinds.Reshape(), [(4,), np.array([1.6, 2.5], np.float32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Reshape(), [(4,), np.array([np.nan], np.float32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Reshape(), [(4,), np.array([np.inf], np.float32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Reshape(), [(4,), np.array([1e30], np.float32)], ErrorCode.SHAPE_MISMATCH),
        (kinds.Reshape(), [(4,), np.array([True])], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Reshape(), [(4,), np.ones(1_000_000, np.int64)], ErrorCode.SHAPE_MISMATCH),
        (kinds.Tile(repeats=(BIG,)), [(0,)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Resize(), [(4,), np.array([np.nan], np.float32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Resize(), [(4,), np.array([np.inf], np.float32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Resize(scales=(1e-300,), sizes=(5,)), [(4,)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Resize(cubic_coefficient=float("nan"), sizes=(5,)), [(4,)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Range(start=0, limit=2**40, dtype=DType.INT32), [], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Range(start=0.0, limit=float("nan"), dtype=DType.FLOAT32), [], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Range(limit=BIG), [], ErrorCode.SHAPE_MISMATCH),
        (kinds.Fill(shape=(2,), value=300, dtype=DType.INT8), [], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Fill(shape=(2,), value=float("nan"), dtype=DType.INT64), [], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Pad(before=(1,), after=(0,), value=2**31), [np.zeros(2, np.int32)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.Pad(before=(BIG,), after=(-BIG,)), [(4,)], ErrorCode.SHAPE_MISMATCH),
        (kinds.Pad(before=(1,), after=(0,), mode=kinds.PadMode.WRAP), [(0,)], ErrorCode.SHAPE_MISMATCH),
        (kinds.Pad(before=(0,), after=(1,), mode=kinds.PadMode.EDGE), [(0,)], ErrorCode.SHAPE_MISMATCH),
        (kinds.InstanceNormalization(), [()], ErrorCode.SHAPE_MISMATCH),
        (kinds.InstanceNormalization(layout=DataLayout.NHWC), [()], ErrorCode.SHAPE_MISMATCH),
        (kinds.GatherNd(batch_dims=-1), [(2, 3), np.zeros((2, 1), np.int64)], ErrorCode.SHAPE_MISMATCH),
        (kinds.Split(parts=2**62), [(4,)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.SpaceToDepth(block=BIG), [(1, 0, 0, 0)], ErrorCode.ATTRIBUTE_INVALID),
        (kinds.DepthToSpace(block=2**31), [(1, 0, 1, 1)], ErrorCode.ATTRIBUTE_INVALID),
    ],
    ids=str,
)
def test_attributes_and_values_of_hostile_magnitude(descriptor: Descriptor, inputs: list[Any], code: ErrorCode) -> None:
    assert refused(descriptor, *inputs).code is code
