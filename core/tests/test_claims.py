"""Claims of a manifest: what they say about layers, and how malformed ones are refused."""

import re

import numpy as np
import pytest

from dovetail import Device, Network, Support
from dovetail.contract.claims import Claims, ClaimsError, read_claims
from dovetail.contract.quantities import Quantity
from dovetail.graph.tensor import DataLayout, Quantization
from dovetail.layers import (
    Convolution2d,
    DepthwiseConvolution2d,
    ElementwiseBinary,
    Pooling2d,
    Softmax,
    TransposeConvolution2d,
)

ONE_SCALE = Quantization.per_tensor(0.5, 3)


def convolution(layout="NHWC", channels=8, filters=4, stride=1, groups=1, kernel=3, bias=True, size=9, padding=0, dilation=1):
    net = Network()
    nhwc = layout == "NHWC"
    image = net.input("image", (1, size, size, channels) if nhwc else (1, channels, size, size))
    per_group = channels // groups
    weights = np.zeros((filters, kernel, kernel, per_group) if nhwc else (filters, per_group, kernel, kernel), np.float32)
    operands = [image, weights, np.zeros(filters, np.float32)] if bias else [image, weights]
    slot = net.convolution2d(*operands, stride=stride, groups=groups, layout=layout, padding=padding, dilation=dilation)
    net.output(slot)
    return slot.layer


def addition(a=(2, 3), b=(2, 3), dtype="float32", quantizations=(None, None, None)):
    net = Network()
    slots = [net.input(name, shape, dtype, q) for name, shape, q in zip("ab", (a, b), quantizations[:2], strict=True)]
    return net.add(ElementwiseBinary(operation="add"), *slots, quantization=quantizations[2])


def values(layer, quantity):
    return list(Quantity(quantity).values(layer, Device()))


def claims(kind="dovetail.Convolution2d", dtypes=("float32",), where=None):
    return read_claims({kind: [{"dtypes": list(dtypes), "where": where or {}}]})


class TestQuantities:
    @pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
    def test_axes_have_names_in_both_layouts(self, layout):
        layer = convolution(layout, channels=8, filters=4, kernel=3)
        for quantity, expected in {
            "input.batch": [1],
            "input.channels": [8],
            "input.height": [9],
            "weights.filters": [4],
            "weights.channels": [8],
            "weights.width": [3],
            "output.channels": [4],
            "output.height": [7],
            "input.rank": [4],
            "input.elements": [648],
            "input.dtype": ["float32"],
            "weights.constant": [True],
            "input.constant": [False],
            "input.quantization": ["none"],
            "input.0": [1],
            "bias.shape": [4],
            "layout": [layout],
            "products": [72],
        }.items():
            assert values(layer, quantity) == expected, quantity

    @pytest.mark.parametrize(
        ("descriptor", "shape", "filters"),
        [
            (Convolution2d(layout=DataLayout.NCHW), (6, 8, 3, 3), 0),
            (Convolution2d(layout=DataLayout.NHWC), (6, 3, 3, 8), 0),
            (DepthwiseConvolution2d(layout=DataLayout.NCHW), (8, 1, 3, 3), 0),
            (DepthwiseConvolution2d(layout=DataLayout.NHWC), (1, 3, 3, 8), 3),
            (TransposeConvolution2d(layout=DataLayout.NCHW), (8, 6, 3, 3), 1),
            (TransposeConvolution2d(layout=DataLayout.NHWC), (6, 3, 3, 8), 0),
        ],
    )
    def test_weights_know_their_filters(self, descriptor, shape, filters):
        net = Network()
        nchw = descriptor.layout is DataLayout.NCHW
        image = net.input("x", (1, 8, 9, 9) if nchw else (1, 9, 9, 8), "int8", ONE_SCALE)
        scales = Quantization.per_axis([0.1] * shape[filters], axis=filters)
        weights = net.constant(np.zeros(shape, np.int8), quantization=scales)
        layer = net.add(descriptor, image, weights, quantization=ONE_SCALE)
        assert values(layer, "weights.filters") == [shape[filters]]
        assert values(layer, "weights.height") == [3]
        assert values(layer, "weights.quantized_axis") == ["filters"]
        assert values(layer, "input.quantized_axis") == []

    def test_what_a_layer_does_not_have(self):
        layer = convolution(bias=False)
        for quantity in ("bias.elements", "nothing", "input.7", "input.depth", "elsewhere.rank", "stride.2", "groups.7"):
            assert values(layer, quantity) == [], quantity
        assert claims(where={"bias.elements": None}).support(layer).supported
        assert not claims(where={"bias.elements": None}).support(convolution()).supported

    def test_a_product_is_of_numbers(self):
        assert values(convolution(), "layout.product") == []
        assert values(addition(), "operation.product") == []

    def test_attributes_have_elements(self):
        layer = convolution(stride=(1, 2))
        for quantity, expected in {
            "stride": [1, 2],
            "stride.1": [2],
            "stride.-2": [1],
            "stride.count": [2],
            "stride.product": [2],
        }.items():
            assert values(layer, quantity) == expected, quantity

    def test_elements_of_an_attribute_that_an_input_may_bring_are_the_attributes(self):
        net = Network("scales")
        layer = net.resize(net.input("x", (1, 3, 4, 4)), scales=(1.0, 1.25, 2.0, 2.0)).layer
        assert [list(Quantity(f"scales.{axis}").values(layer, Device())) for axis in (0, 1, -1)] == [[1.0], [1.25], [2.0]]
        sized = net.resize(net.input("y", (1, 3, 4, 4)), sizes=(1, 3, 8, 8)).layer
        assert list(Quantity("scales.0").values(sized, Device())) == []
        assert not Quantity("scales.0").is_of_tensor(type(layer.descriptor))
        assert Quantity("input.0").is_of_tensor(type(layer.descriptor))

    def test_what_windows_reach_over(self):
        layer = convolution(kernel=3, dilation=(2, 1), padding=(1, 2, 0, 0))
        found = {
            quantity: values(layer, quantity) for quantity in ("padded.height", "padded.width", "window.height", "window.width")
        }
        assert found == {"padded.height": [10], "padded.width": [11], "window.height": [5], "window.width": [3]}
        net = Network()
        pooling = net.add(Pooling2d(function="max", size=(2, 3), padding=(0, 1, 0, 1)), net.input("x", (1, 2, 5, 6)))
        assert values(pooling, "padded.width") == [8]
        assert values(pooling, "window.width") == [3]

    def test_a_slot_of_many_tensors_has_the_values_of_all(self):
        net = Network()
        parts = [net.input(name, (2, size), "int8", ONE_SCALE if size > 1 else None) for name, size in (("a", 1), ("b", 3))]
        layer = net.concat(parts, axis=1).layer
        assert values(layer, "inputs.1") == [1, 3]
        assert values(layer, "inputs.count") == [2]
        assert values(layer, "inputs.quantization") == ["none", "per_tensor"]
        assert values(layer, "inputs.zero_point") == [3]
        split = net.split(net.input("x", (4, 2)), 2)[0].layer
        assert values(split, "outputs.0") == [2, 2]
        assert values(split, "output.0") == [2]

    def test_an_attribute_that_is_a_quantization_has_an_axis(self):
        net = Network()
        for given, expected in ((ONE_SCALE, []), (Quantization.per_axis([0.5, 0.25], axis=0), [0])):
            layer = net.quantize(net.input(net.unique_name("x"), (2, 3)), given).layer
            assert values(layer, "quantization.axis") == expected

    def test_an_attribute_of_an_element_type_is_its_name(self):
        net = Network()
        layer = net.cast(net.input("x", (2,)), "int16").layer
        assert values(layer, "dtype") == ["int16"]
        group = read_claims({"dovetail.Cast": [{"dtypes": ["any"], "where": {"dtype": "integer"}}]})
        assert group.support(layer).supported
        assert not group.support(net.cast(net.input("y", (2,)), "float16").layer).supported


@pytest.mark.parametrize(
    ("where", "arguments", "expected"),
    [
        ({"layout": "NHWC"}, {}, None),
        ({"layout": "NHWC"}, {"layout": "NCHW"}, ("attribute", "layout", "layout is NCHW; NHWC is taken")),
        ({"stride": {"min": 1, "max": 2}}, {"stride": 2}, None),
        ({"stride": {"min": 1, "max": 2}}, {"stride": (2, 3)}, ("attribute", "stride", "stride is (2, 3); 1 to 2 is taken")),
        ({"stride": {"max": 2}}, {"stride": 3}, ("attribute", "stride", "stride is (3, 3); at most 2 is taken")),
        ({"groups": [1, 2]}, {"groups": 4}, ("attribute", "groups", "groups is 4; 1 or 2 is taken")),
        ({"input.channels": {"multiple_of": 8}}, {"channels": 16}, None),
        ({"input.channels": {"multiple_of": 8}}, {"channels": 12}, ("shape", "input", "a multiple of 8")),
        ({"input.channels": [1, 2, {"multiple_of": 8}]}, {"channels": 2}, None),
        ({"input.channels": [1, 2, {"multiple_of": 8}]}, {"channels": 4}, ("shape", "input", "1, 2 or a multiple of 8 is")),
        ({"input.dtype": "int8"}, {}, ("dtype", "input", "input.dtype is float32; int8 is taken")),
        ({"input.dtype": "float"}, {}, None),
        ({"input.dtype": "integer"}, {}, ("dtype", "input", "uint32 or uint64")),
        ({"weights.constant": True}, {}, None),
        ({"weights.constant": False}, {}, ("constant", "weights", "weights.constant is true; false is taken")),
        ({"weights.constant": 1}, {}, ("constant", "weights", "1 is taken")),
        ({"weights.height": {"max": 3}}, {"kernel": 4}, ("shape", "weights", "weights.height is 4; at most 3 is taken")),
        ({"output.channels": {"same_as": "input.channels"}}, {"filters": 8}, None),
        (
            {"output.channels": {"same_as": "input.channels"}},
            {"filters": 4},
            ("shape", "output", "output.channels is 4; the same as input.channels (8) is taken"),
        ),
        ({"window.height": {"max": "padded.height"}}, {"kernel": 9}, None),
        ({"weights.height": {"max": "output.height"}}, {"kernel": 5}, None),
        (
            {"weights.height": {"max": "output.height"}},
            {"kernel": 6},
            ("shape", "weights", "weights.height is 6; at most output.height (4) is taken"),
        ),
        ({"dilation": {"max": "stride"}}, {"dilation": (1, 2), "stride": (1, 2)}, None),
        ({"dilation": {"max": "stride"}}, {"dilation": (1, 2), "stride": (2, 1)}, ("attribute", "dilation", "(2, 1)")),
        ({"dilation": {"max": "nothing"}}, {}, ("attribute", "dilation", "at most nothing (none)")),
        ({"bias.dtype": [None, {"same_as": "input.dtype"}]}, {"bias": False}, None),
        ({"bias.dtype": [None, {"same_as": "input.dtype"}]}, {}, None),
        ({"bias.dtype": {"same_as": "input.dtype"}}, {"bias": False}, ("dtype", "bias", "bias.dtype is none")),
        ({"padded.height": {"max": 10}}, {"padding": 1}, ("shape", "padded", "padded.height is 11")),
        ({"products": {"max": 71}}, {}, ("shape", "products", "products is 72; at most 71 is taken")),
    ],
)  # fmt: skip
def test_conditions(where, arguments, expected):
    answer = claims(where=where).support(convolution(**arguments))
    assert answer.supported is (expected is None), answer
    if expected is not None:
        assert (answer.code, answer.attribute) == expected[:2]
        assert expected[2] in answer.reason


@pytest.mark.parametrize(("beta", "is_taken"), [(0.0, True), (0.5, True), (2.0, True), (-0.5, False), (2.5, False)])
def test_bounds_hold_for_fractions(beta, is_taken):
    network = Network("net")
    layer = network.add(Softmax(beta=beta), network.input("x", (1, 4)))
    answer = claims("dovetail.Softmax", ["float32"], {"beta": {"min": 0, "max": 2}}).support(layer)
    assert answer.supported is is_taken, answer


def test_no_number_is_within_bounds_unless_it_is_one():
    network = Network("net")
    layer = network.add(Softmax(beta=float("nan")), network.input("x", (1, 4)))
    assert not claims("dovetail.Softmax", ["float32"], {"beta": {"min": 0}}).support(layer).supported


def test_quantizations_are_compared_with_all_that_they_say():
    same = claims("dovetail.ElementwiseBinary", ["int8"], {"a.quantization": {"same_as": "output.quantization"}})
    assert same.support(addition(dtype="int8", quantizations=(ONE_SCALE,) * 3)).supported
    assert same.support(addition(dtype="int8")).supported, "none is the same as none"
    other = Quantization.per_tensor(0.5, 4)
    answer = same.support(addition(dtype="int8", quantizations=(ONE_SCALE, ONE_SCALE, other)))
    assert (answer.code, answer.attribute) == ("quantization", "a")
    assert "scale 0.5, zero point 3" in answer.reason
    assert "(scale 0.5, zero point 4) is taken" in answer.reason
    assert not same.support(addition(dtype="int8", quantizations=(ONE_SCALE, None, None))).supported


def test_every_tensor_of_a_slot_is_compared_with_the_one():
    net = Network()
    where = {"inputs.quantization": {"same_as": "output.quantization"}}
    equal = claims("dovetail.Concat", ["int8"], where)
    for other, expected in ((ONE_SCALE, True), (None, False)):
        parts = [net.input(net.unique_name("x"), (2,), "int8", q) for q in (ONE_SCALE, other)]
        layer = net.add(net.concat(parts, axis=0).layer.descriptor, *parts, quantization=ONE_SCALE)
        assert equal.support(layer).supported is expected


def test_equal_shapes_are_the_same_sizes_in_order():
    equal = claims("dovetail.ElementwiseBinary", where={"b.shape": {"same_as": "a.shape"}})
    assert equal.support(addition()).supported
    assert equal.support(addition((), ())).supported
    answer = equal.support(addition((2, 3), (1, 3)))
    assert answer == Support.no("shape", "b.shape is [1, 3]; the same as a.shape ([2, 3]) is taken", "b")
    assert not equal.support(addition((2, 2), (2,))).supported


def test_conditions_have_names():
    content = {
        "image": {"input.rank": 4, "input.batch": 1},
        "dovetail.Convolution2d, dovetail.DepthwiseConvolution2d": [
            {"dtypes": ["float"], "where": ["image", {"groups": 1}, {"stride": 1}]}
        ],
        "dovetail.Reshape": [{"dtypes": ["any"]}],
    }
    read = read_claims(content)
    assert list(read) == ["dovetail.Convolution2d", "dovetail.DepthwiseConvolution2d", "dovetail.Reshape"]
    assert [one.quantity.name for one in read["dovetail.Convolution2d"][0].where] == [
        "input.rank",
        "input.batch",
        "groups",
        "stride",
    ]
    assert len(read["dovetail.Reshape"][0].dtypes) == 13
    assert len(read["dovetail.Convolution2d"][0].dtypes) == 4
    assert read.support(convolution()).supported
    assert read.support(convolution(groups=2)).attribute == "groups"


def test_kind_and_dtype_are_named():
    layer = convolution()
    assert claims("dovetail.Softmax").support(layer).code == "kind"
    answer = claims(dtypes=["int8", "float16"]).support(layer)
    assert answer.code == "dtype"
    assert "float32 is not taken; int8 and float16 are" in answer.reason


def test_any_of_several_claims_may_hold_and_the_closest_speaks():
    several = read_claims(
        {
            "dovetail.Convolution2d": [
                {"dtypes": ["float32"], "where": {"layout": "NCHW", "groups": 2}},
                {"dtypes": ["float32"], "where": {"layout": "NHWC", "stride": 1}},
                {"dtypes": ["float32"], "where": {"layout": "NHWC", "stride": {"min": 4}}},
            ]
        }
    )
    assert several.support(convolution()).supported
    assert several.support(convolution(stride=2)).reason == "stride is (2, 2); 1 or at least 4 is taken"


def test_devices_that_differ_are_told_apart():
    content = {
        "dovetail.Convolution2d": [
            {"dtypes": ["float32"], "where": {"device.half_precision": [None, False]}},
            {"dtypes": ["float32"], "where": {"device.revision": ["B1", "B2"], "input.elements": {"max": "device.lines"}}},
        ]
    }
    read, layer = read_claims(content), convolution()
    assert read.support(layer).supported
    assert read.support(layer, Device(half_precision=False)).supported
    refused = read.support(layer, Device(half_precision=True, revision="B1", facts={"lines": 647}))
    assert (refused.code, refused.attribute) == ("device", "device")
    assert refused.reason == "device.half_precision is true; false or none is taken"
    assert read.support(layer, Device(half_precision=True, revision="B2", facts={"lines": 648})).supported
    assert not read.support(layer, Device(half_precision=True, revision="B2")).supported


def test_an_answer_has_no_truth_value():
    for answer in (Support.yes(), Support.no("kind", "no such kernel")):
        with pytest.raises(TypeError, match="'supported'"):
            bool(answer)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ([], "by kind"),
        ({"Convolution2d": []}, "dovetail.Convolution2d"),
        ({"a.B": {}}, "must be a list"),
        ({"a.B": [], "a.C, a.B": []}, "a.B stands in 'claims' twice"),
        ({"a.B": [{"where": {}}]}, "'dtypes'"),
        ({"a.B": [{"dtypes": []}]}, "must be a list of float,"),
        ({"a.B": [{"dtypes": ["float31"]}]}, "must be a list of float,"),
        ({"a.B": [{"dtypes": ["int8"], "were": {}}]}, "'where'"),
        ({"a.B": [{"dtypes": ["int8"], "where": 1}]}, "by quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": ["image"]}]}, "names the conditions 'image'"),
        ({"image": {"x": {}}}, "nothing"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"minimum": 1}}}]}, "did you mean 'min'"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"same": "y"}}}]}, "did you mean 'same_as'"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"same_as": "y", "min": 1}}}]}, "must stand alone"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"same_as": 1}}}]}, "the name of a quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {}}}]}, "nothing"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": []}}]}, "a list of values"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"multiple_of": 0}}}]}, "positive integer"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"max": float("nan")}}}]}, "must be a number or"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"max": True}}}]}, "must be a number or"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"max": 10**400}}}]}, "must be a number or"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"multiple_of": 10**400}}}]}, "positive integer"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": 10**400}}]}, "a list of values"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"min": 5, "max": 1}}}]}, "above its 'max' of 1: nothing fits"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x.--5": 1}}]}, "'x.--5' of a.B is no quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x.²": 1}}]}, "is no quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"__class__": 1}}]}, "'__class__' of a.B is no quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"max": "a b"}}}]}, "'a b' of a.B is no quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"same_as": ".y"}}}]}, "'.y' of a.B is no quantity"),
        ({"a": ["b"], "b": {"x": 1}, "a.B": [{"dtypes": ["int8"], "where": "a"}]}, "names no other set"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": [[1]]}}]}, "a list of values"),
    ],
)
def test_malformed(content, word):
    with pytest.raises(ClaimsError, match=re.escape(word)):
        read_claims(content)


def test_no_quantization_is_what_null_claims():
    assert claims("dovetail.ElementwiseBinary", where={"a.quantization": None}).support(addition()).supported
    refused = claims("dovetail.ElementwiseBinary", ["int8"], {"a.quantization": None}).support(
        addition(dtype="int8", quantizations=(ONE_SCALE,) * 3)
    )
    assert refused.reason == "a.quantization is per_tensor; none is taken"


def test_what_two_lack_is_not_the_same():
    refused = claims("dovetail.ElementwiseBinary", where={"a.scale": {"same_as": "output.scale"}}).support(addition())
    assert refused.reason == "a.scale is none; the same as output.scale, where there is one, is taken"


def test_claims_of_a_kind_are_read_when_they_are_asked_for():
    content = {"a.B": [{"dtypes": ["int8"], "where": ["some"]}], "a.C": [{"dtypes": ["float31"]}], "some": {"x": 1}}
    claims = Claims(content)
    assert list(claims) == ["a.B", "a.C"]
    assert [str(one) for one in claims["a.B"][0].where] == ["x: 1"]
    assert claims["a.B"] is claims["a.B"]
    with pytest.raises(ClaimsError, match="list of float"):
        claims["a.C"]
    with pytest.raises(ClaimsError, match="list of float"):
        Claims(content).read()
