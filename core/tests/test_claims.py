"""Claims of a manifest: what they say about layers, and how malformed ones are refused."""

import re

import numpy as np
import pytest

from dovetail import Network
from dovetail.contract.claims import ClaimsError, quantity_values, read_claims, refusal_of
from dovetail.graph.tensor import Quantization


def convolution(layout="NHWC", channels=8, filters=4, stride=1, groups=1, kernel=3, bias=True):
    net = Network()
    nhwc = layout == "NHWC"
    image = net.input("image", (1, 9, 9, channels) if nhwc else (1, channels, 9, 9))
    per_group = channels // groups
    weights = np.zeros((filters, kernel, kernel, per_group) if nhwc else (filters, per_group, kernel, kernel), np.float32)
    operands = [image, weights, np.zeros(filters, np.float32)] if bias else [image, weights]
    slot = net.convolution2d(*operands, stride=stride, groups=groups, layout=layout)
    net.output(slot)
    return slot.layer


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_axes_have_names_in_both_layouts(layout):
    layer = convolution(layout, channels=8, filters=4, kernel=3)
    for quantity, expected in {
        "input.batch": 1,
        "input.channels": 8,
        "input.height": 9,
        "weights.filters": 4,
        "weights.channels": 8,
        "weights.width": 3,
        "output.channels": 4,
        "output.height": 7,
        "input.rank": 4,
        "input.elements": 648,
        "input.dtype": "float32",
        "weights.constant": True,
        "input.constant": False,
        "input.quantization": "none",
        "input.0": 1,
        "layout": layout,
    }.items():
        assert quantity_values(layer, quantity) == [expected], quantity


def test_what_a_layer_does_not_have():
    layer = convolution(bias=False)
    for quantity in ("bias.elements", "nothing", "input.7", "input.depth", "elsewhere.rank"):
        assert quantity_values(layer, quantity) == []
    assert refusal_of(layer, claims(where={"bias.elements": None})).supported
    assert not refusal_of(convolution(), claims(where={"bias.elements": None})).supported


def test_lists_have_one_value_per_element():
    assert quantity_values(convolution(stride=(1, 2)), "stride") == [1, 2]


def claims(kind="dovetail.Convolution2d", dtypes=("float32",), where=None):
    return read_claims({kind: [{"dtypes": list(dtypes), "where": where or {}}]})


@pytest.mark.parametrize(
    ("where", "arguments", "expected"),
    [
        ({"layout": "NHWC"}, {}, None),
        ({"layout": "NHWC"}, {"layout": "NCHW"}, ("attribute", "layout")),
        ({"stride": {"min": 1, "max": 2}}, {"stride": 2}, None),
        ({"stride": {"min": 1, "max": 2}}, {"stride": (2, 3)}, ("attribute", "stride")),
        ({"groups": [1, 2]}, {"groups": 4}, ("attribute", "groups")),
        ({"input.channels": {"multiple_of": 8}}, {"channels": 16}, None),
        ({"input.channels": {"multiple_of": 8}}, {"channels": 12}, ("shape", "input")),
        ({"input.dtype": "int8"}, {}, ("dtype", "input")),
        ({"weights.constant": True}, {}, None),
        ({"weights.constant": 1}, {}, ("shape", "weights")),
    ],
)
def test_conditions(where, arguments, expected):
    answer = refusal_of(convolution(**arguments), claims(where=where))
    assert answer.supported is (expected is None)
    if expected is not None:
        assert (answer.code, answer.attribute) == expected
        assert answer.reason


def test_kind_and_dtype_are_named():
    layer = convolution()
    assert refusal_of(layer, claims("dovetail.Softmax")).code == "kind"
    answer = refusal_of(layer, claims(dtypes=["int8", "float16"]))
    assert answer.code == "dtype"
    assert "int8, float16" in answer.reason


def test_any_of_several_claims_may_hold_and_the_closest_speaks():
    several = read_claims(
        {
            "dovetail.Convolution2d": [
                {"dtypes": ["float32"], "where": {"layout": "NCHW", "groups": 2}},
                {"dtypes": ["float32"], "where": {"layout": "NHWC", "stride": 1}},
            ]
        }
    )
    assert refusal_of(convolution(), several).supported
    assert "stride must be 1, found 2" in refusal_of(convolution(stride=2), several).reason


def test_quantization_is_a_quantity():
    net = Network()
    image = net.input("image", (1, 4), "int8", quantization=Quantization.per_tensor(0.5))
    layer = net.dequantize(image, Quantization.per_tensor(0.5)).layer
    assert quantity_values(layer, "input.quantization") == ["per_tensor"]


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ([], "by kind"),
        ({"Convolution2d": []}, "dovetail.Convolution2d"),
        ({"a.B": {}}, "must be a list"),
        ({"a.B": [{"where": {}}]}, "'dtypes'"),
        ({"a.B": [{"dtypes": []}]}, "must be a list of float64"),
        ({"a.B": [{"dtypes": ["float31"]}]}, "must be a list of float64"),
        ({"a.B": [{"dtypes": ["int8"], "were": {}}]}, "'where'"),
        ({"a.B": [{"dtypes": ["int8"], "where": []}]}, "by quantity"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"minimum": 1}}}]}, "did you mean 'min'"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {}}}]}, "nothing"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": []}}]}, "a list of values"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"multiple_of": 0}}}]}, "positive integer"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": {"max": float("nan")}}}]}, "must be a number"),
        ({"a.B": [{"dtypes": ["int8"], "where": {"x": [[1]]}}]}, "a list of values"),
    ],
)
def test_malformed(content, word):
    with pytest.raises(ClaimsError, match=re.escape(word)):
        read_claims(content)
