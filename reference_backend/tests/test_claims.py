"""Check that the manifest's claims are kept: each kind and dtype is taken and has a workload.

Troubleshooting: a refusal here says which claim of `dovetail-backend.json` lacks what the table of
families promises.
"""

import numpy as np
import pytest

import dovetail.layers
from dovetail import Constant, Descriptor, Device, DType, ErrorCode, GraphError, Network, Quantization
from dovetail.graph.descriptor import Input, Output
from dovetail.layers import GlobalPooling, MatMul, Pooling2d, QuantizedLstm, QuantizedSvdf, Softmax, TransposeConvolution2d
from dovetail_reference import ReferenceBackend
from dovetail_reference.families import FAMILIES

QUANTIZATION = Quantization.per_tensor(0.1, 3)
WEIGHTS = Quantization.per_tensor(0.1)
QUANTIZED = (DType.INT8, DType.UINT8)
DETECTOR = ((1, 6, 4), (1, 6, 3), (6, 4))


BACKEND = ReferenceBackend()
CLAIMS = BACKEND.claims


class Maker(Network):
    """Makes operands: inputs of one dtype, quantized where an integer would else mean nothing."""

    def tensor(self, dtype, *shape, quantized=False):
        quantization = QUANTIZATION if quantized and dtype in QUANTIZED else None
        return self.input(self.unique_name("x"), shape, dtype, quantization)

    def product(self, dtype, x, weights, filters, *, of_words=False):
        """Operands and keywords of a layer with weights and bias."""
        if of_words and dtype is DType.INT16:
            pairs = ((x, dtype), (weights, DType.INT8))
            operands = [self.input(self.unique_name("x"), shape, of, QUANTIZATION) for shape, of in pairs]
            return [*operands, self.tensor(DType.INT64, filters)], {"quantization": QUANTIZATION}
        quantized = dtype in QUANTIZED
        operands = [self.tensor(dtype, *shape, quantized=True) for shape in (x, weights)]
        operands.append(self.tensor(DType.INT32 if quantized else dtype, filters))
        return operands, {"quantization": QUANTIZATION} if quantized else {}


def convolution(net, d):
    operands, keywords = net.product(d, (1, 4, 5, 5), (6, 2, 3, 3), 6, of_words=True)
    return net.convolution2d(*operands, groups=2, **keywords)


def depthwise(net, d):
    operands, keywords = net.product(d, (1, 4, 5, 5), (8, 1, 3, 3), 8, of_words=True)
    return net.depthwise_convolution2d(*operands, **keywords)


def transposed(net, d):
    operands, keywords = net.product(d, (1, 4, 5, 5), (4, 2, 3, 3), 2, of_words=True)
    return net.add(TransposeConvolution2d(stride=(2, 2)), *operands, **keywords).output


def fully_connected(net, d):
    operands, keywords = net.product(d, (2, 4), (3, 4), 3)
    return net.fully_connected(*operands, **keywords)


def pooling_function(d):
    return "average" if d.is_float or d in QUANTIZED else "max"


def parameters(net, d, count):
    return [net.tensor(d, 4) for _ in range(count)]


def positions(net, shape):
    return net.constant(np.zeros(shape, np.int64))


def recurrent_operands(net, d, gates):
    return [net.tensor(d, *shape) for shape in ((3, 2, 4), (gates * 5, 4), (gates * 5, 5), (gates * 5,))]


def quantized_lstm(net, d):
    bytes_of = [
        net.input(net.unique_name("x"), shape, d, WEIGHTS) for shape in ((3, 2, 4), (2, 5), *[(5, 4)] * 3, *[(5, 5)] * 3)
    ]
    cell = net.input("cell", (2, 5), DType.INT16, Quantization.per_tensor(2.0**-11))
    return net.add(
        QuantizedLstm(), *bytes_of[:2], cell, *bytes_of[2:], *(net.tensor(DType.INT32, 5) for _ in range(3))
    ).outputs[0]


def quantized_svdf(net, d):
    def held(dtype, *shape):
        return net.input(net.unique_name("x"), shape, dtype, WEIGHTS)

    operands = (held(d, 2, 4), held(DType.INT16, 2, 18), held(d, 6, 4), held(DType.INT16, 6, 3), net.tensor(DType.INT32, 3))
    return net.add(QuantizedSvdf(rank=2), *operands, quantization=WEIGHTS).outputs[0]


def zeros(d, shape=()):
    """A constant; bfloat16 is stored as uint16."""
    return Constant(value=np.zeros(shape, d.numpy), dtype=d)


BUILDERS = {
    "Convolution2d": convolution,
    "DepthwiseConvolution2d": depthwise,
    "TransposeConvolution2d": transposed,
    "FullyConnected": fully_connected,
    "MatMul": lambda net, d: net.add(MatMul(), net.tensor(d, 2, 3, 4), net.tensor(d, 4, 5)).output,
    "Pooling2d": lambda net, d: (
        net.add(Pooling2d(function=pooling_function(d), size=(2, 2)), net.tensor(d, 1, 2, 4, 4, quantized=True)).output
    ),
    "GlobalPooling": lambda net, d: (
        net.add(GlobalPooling(function=pooling_function(d)), net.tensor(d, 1, 2, 4, quantized=True)).output
    ),
    "BatchNormalization": lambda net, d: net.batch_normalization(net.tensor(d, 2, 4, 3), *parameters(net, d, 4)),
    "InstanceNormalization": lambda net, d: net.instance_normalization(net.tensor(d, 2, 4, 3), *parameters(net, d, 2)),
    "GroupNormalization": lambda net, d: net.group_normalization(net.tensor(d, 2, 4, 3), *parameters(net, d, 2), groups=2),
    "LayerNormalization": lambda net, d: net.layer_normalization(net.tensor(d, 2, 4), *parameters(net, d, 2)),
    "LpNormalization": lambda net, d: net.lp_normalization(net.tensor(d, 2, 4)),
    "LocalResponseNormalization": lambda net, d: net.local_response_normalization(net.tensor(d, 2, 4, 3), 3),
    "Softmax": lambda net, d: (
        net.add(Softmax(), net.tensor(d, 2, 4, quantized=True), quantization=QUANTIZATION if d in QUANTIZED else None).output
    ),
    "Activation": lambda net, d: net.relu(net.tensor(d, 2, 4, quantized=True)),
    "Prelu": lambda net, d: net.prelu(net.tensor(d, 2, 4), net.tensor(d, 4)),
    "ElementwiseUnary": lambda net, d: net.unary(net.tensor(d, 2, 4), "logical_not" if d is DType.BOOL else "abs"),
    "ElementwiseBinary": lambda net, d: net.binary(
        net.tensor(d, 2, 4), net.tensor(d, 4), "logical_and" if d is DType.BOOL else "add"
    ),
    "Comparison": lambda net, d: net.comparison(net.tensor(d, 2, 4), net.tensor(d, 4), "equal"),
    "Where": lambda net, d: net.where(net.tensor(DType.BOOL, 4), net.tensor(d, 2, 4), net.tensor(d, 4)),
    "Cast": lambda net, d: net.cast(net.tensor(d, 2, 4), DType.INT16),
    "Reduce": lambda net, d: net.reduce(net.tensor(d, 2, 4), "max", 1),
    "ArgMinMax": lambda net, d: net.arg_min_max(net.tensor(d, 2, 4), "max"),
    "TopK": lambda net, d: net.top_k(net.tensor(d, 2, 4), 2)[0],
    "DetectionPostProcess": lambda net, d: net.detection_post_process(*(net.tensor(d, *s) for s in DETECTOR), 3, 2)[0],
    "CumulativeSum": lambda net, d: net.cumulative_sum(net.tensor(d, 2, 4)),
    "Reshape": lambda net, d: net.reshape(net.tensor(d, 2, 4), (8,)),
    "ExpandDims": lambda net, d: net.expand_dims(net.tensor(d, 2, 4), 1),
    "Squeeze": lambda net, d: net.squeeze(net.tensor(d, 2, 1, 4)),
    "Flatten": lambda net, d: net.flatten(net.tensor(d, 2, 4, 3)),
    "Permute": lambda net, d: net.permute(net.tensor(d, 2, 4)),
    "BroadcastTo": lambda net, d: net.broadcast_to(net.tensor(d, 4), (3, 4)),
    "Tile": lambda net, d: net.tile(net.tensor(d, 4), (3,)),
    "Shape": lambda net, d: net.shape_of(net.tensor(d, 2, 4)),
    "SpaceToDepth": lambda net, d: net.space_to_depth(net.tensor(d, 1, 2, 4, 4), 2),
    "DepthToSpace": lambda net, d: net.depth_to_space(net.tensor(d, 1, 8, 2, 2), 2),
    "Concat": lambda net, d: net.concat([net.tensor(d, 2, 4), net.tensor(d, 3, 4)], axis=0),
    "Stack": lambda net, d: net.stack([net.tensor(d, 4), net.tensor(d, 4)]),
    "Split": lambda net, d: net.split(net.tensor(d, 4, 2), 2)[0],
    "Pad": lambda net, d: net.pad(net.tensor(d, 4), (1,), (2,)),
    "StridedSlice": lambda net, d: net.strided_slice(net.tensor(d, 4), (1,), (3,)),
    "Gather": lambda net, d: net.gather(net.tensor(d, 4), positions(net, (2,))),
    "GatherElements": lambda net, d: net.gather_elements(net.tensor(d, 4), positions(net, (2,))),
    "GatherNd": lambda net, d: net.gather_nd(net.tensor(d, 4), positions(net, (2, 1))),
    "ScatterElements": lambda net, d: net.scatter_elements(net.tensor(d, 4), positions(net, (1,)), net.tensor(d, 1)),
    "ScatterNd": lambda net, d: net.scatter_nd(net.tensor(d, 4), positions(net, (1, 1)), net.tensor(d, 1)),
    "OneHot": lambda net, d: net.one_hot(positions(net, (3,)), 4, net.add(zeros(d, (2,))).output),
    "Trilu": lambda net, d: net.trilu(net.tensor(d, 4, 4)),
    "Fill": lambda net, d: net.fill((2, 4), 0, dtype=d),
    "Rnn": lambda net, d: net.rnn(*recurrent_operands(net, d, 1))[0],
    "Gru": lambda net, d: net.gru(*recurrent_operands(net, d, 3))[0],
    "Lstm": lambda net, d: net.lstm(*recurrent_operands(net, d, 4))[0],
    "QuantizedLstm": quantized_lstm,
    "QuantizedSvdf": quantized_svdf,
    "Resize": lambda net, d: net.resize(net.tensor(d, 1, 2, 4, 4), (1, 2, 8, 8), method="nearest"),
    "Quantize": lambda net, d: net.quantize(net.tensor(d, 4), QUANTIZATION),
    "Dequantize": lambda net, d: net.dequantize(net.tensor(d, 4), QUANTIZATION),
}

# All inputs of a range are value inputs: it is a constant by the time a backend is asked. A
# conditional is a choice by then.
FOLDED = {"dovetail.Range", "dovetail.Conditional"}


def known_kinds():
    values = [getattr(dovetail.layers, name) for name in dir(dovetail.layers)]  # each is imported when asked for
    classes = {v for v in values if isinstance(v, type) and issubclass(v, Descriptor) and v.kind}
    return {c.kind for c in classes} - {c.kind for c in (Constant, Input, Output)}


def test_every_kind_is_claimed():
    assert known_kinds() - FOLDED == set(CLAIMS)


def test_every_kind_has_a_family():
    assert set(FAMILIES) == set(CLAIMS)


def test_every_claim_is_tried():
    assert {kind.removeprefix("dovetail.") for kind in CLAIMS} == set(BUILDERS)


DTYPES = {kind: {dtype for claim in claims for dtype in claim.dtypes} for kind, claims in CLAIMS.items()}
ROWS = [(kind, dtype) for kind, dtypes in DTYPES.items() for dtype in sorted(dtypes, key=str)]


@pytest.mark.parametrize(("kind", "dtype"), ROWS, ids=lambda value: str(value).removeprefix("dovetail."))
def test_claim(kind, dtype):
    layer = BUILDERS[kind.removeprefix("dovetail.")](Maker(), dtype).layer
    assert layer.kind == kind
    support = BACKEND.supports(layer, BACKEND.options_type(), Device())
    assert support.supported, f"{support.code}: {support.reason}"
    assert BACKEND.create_workload_factory(None, None, None).create_workload(layer) is not None


# The graph itself refuses to dequantize floats.
@pytest.mark.parametrize("kind", [k for k in CLAIMS if k != "dovetail.Dequantize"])
def test_other_dtypes_are_refused_with_a_reason(kind):
    for dtype in set(DType) - DTYPES[kind]:
        try:
            layer = BUILDERS[kind.removeprefix("dovetail.")](Maker(), dtype).layer
        except GraphError as error:  # the kind is not defined for it
            if error.code is not ErrorCode.DTYPE_MISMATCH:
                raise
            continue
        support = BACKEND.supports(layer, BACKEND.options_type(), Device())
        assert not support.supported
        assert (support.code, dtype.label in support.reason) == ("dtype", True)


def net_of_one_average():
    net = Maker()
    return net.pooling2d(net.tensor(DType.INT64, 1, 2, 4, 4), "average", 2)


class TestRefusals:
    """What `supports` must say no to, with a code."""

    def code(self, build):
        return BACKEND.supports(build(Maker()).layer, BACKEND.options_type(), Device()).code

    def test_unknown_kind(self):
        class Foreign(GlobalPooling, kind="acme.Foreign"):
            pass

        assert self.code(lambda net: net.add(Foreign(function="max"), net.tensor(DType.FLOAT32, 1, 2, 3)).output) == "kind"

    def test_quantized_without_quantization(self):
        def build(net):
            return net.convolution2d(net.tensor(DType.INT8, 1, 4, 5, 5), np.zeros((2, 4, 3, 3), np.int8))

        assert self.code(build) == "quantization"

    @pytest.mark.parametrize("missing", range(3))
    def test_one_slot_without_quantization(self, missing):
        def build(net):
            given = [None if i == missing else QUANTIZATION for i in range(3)]
            x = net.input("x", (2, 4), DType.INT8, given[0])
            weights = net.input("weights", (3, 4), DType.INT8, given[1])
            return net.fully_connected(x, weights, quantization=given[2])

        assert self.code(build) == "quantization"

    def test_weights_quantized_along_their_depth(self):
        def build(net):
            x = net.input("x", (2, 4), DType.INT8, QUANTIZATION)
            weights = net.input("weights", (3, 4), DType.INT8, Quantization.per_axis([0.1] * 4, axis=1))
            return net.fully_connected(x, weights, quantization=QUANTIZATION)

        assert self.code(build) == "quantization"

    def test_average_of_wide_integers(self):
        layer = net_of_one_average().layer
        answer = BACKEND.supports(layer, BACKEND.options_type(), Device())
        assert answer.code == "attribute"
        assert answer.reason == "function is average; max is taken for int64"
