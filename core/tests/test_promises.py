"""What a manifest promises beyond its claims: reading it, and which layers it speaks of."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Device, Network
from dovetail.contract.claims import ClaimsError
from dovetail.contract.promises import KIND, read_promises
from dovetail.discovery.manifest import check
from dovetail.discovery.reasons import Refused

DEVIATION = {"dtypes": ["float32"], "what": "halves go up", "why": "the unit has no other mode", "absolute": 1}


def network():
    net = Network("promises")
    x = net.input("x", (1, 4, 4, 8))
    net.output(net.pooling2d(x, "average", 2), "pooled")
    net.output(net.relu(net.fully_connected(net.input("v", (1, 8)), np.ones((2, 8), np.float32))), "product")
    return net


def layer_of(kind):
    return next(layer for layer in network() if layer.kind == kind)


def test_a_manifest_without_promises_promises_nothing():
    for manifest in (None, {"id": "CpuAcme"}, {"claims": {"dovetail.Softmax": [{"dtypes": ["any"]}]}}):
        promises = read_promises(manifest)
        assert promises == ({}, (), None)
        assert promises.standard_of(layer_of("dovetail.Pooling2d"), Device()) is None
        assert promises.deviations_of(layer_of("dovetail.Pooling2d"), Device()) == []


def test_a_promise_holds_for_the_layers_that_its_conditions_name():
    manifest = {
        "claims": {"small": {"output.elements": {"max": 8}}},
        "bit_exact": {
            "dovetail.Pooling2d, dovetail.FullyConnected": [
                {"dtypes": ["float32"], "where": "small", "standard": "ieee"},
                {"dtypes": ["float32"], "where": {"function": "average"}},
            ]
        },
        "late_failure": {"fail_at": 1},
    }
    promises = read_promises(manifest)
    assert promises.standard_of(layer_of("dovetail.FullyConnected"), Device()) == "ieee"
    assert promises.standard_of(layer_of("dovetail.Pooling2d"), Device()) == KIND  # 32 elements
    assert promises.standard_of(layer_of("dovetail.Activation"), Device()) is None
    assert promises.late_failure == {"fail_at": 1}
    assert [kind for kind, _ in promises.scopes()] == ["dovetail.Pooling2d"] * 2 + ["dovetail.FullyConnected"] * 2


def test_a_deviation_says_what_by_how_much_and_why():
    entry = {**DEVIATION, "relative": 0.5, "nonfinite": True, "where": {"function": "average"}, "link": "https://acme.example"}
    promises = read_promises({"deviations": {"dovetail.Pooling2d": [entry]}})
    (found,) = promises.deviations_of(layer_of("dovetail.Pooling2d"), Device())
    assert str(found) == (
        "halves go up (by at most 1 + 0.5 times the expected value and by anything where NaN or an infinity is expected), "
        "because the unit has no other mode; see https://acme.example"
    )
    assert promises.deviations_of(layer_of("dovetail.FullyConnected"), Device()) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"bit_exact": []}, "'bit_exact' must be an object, by kind, not list"),
        ({"bit_exact": {"Softmax": []}}, "'Softmax' in 'bit_exact' is no kind; write it as 'dovetail.Convolution2d'"),
        ({"bit_exact": {"dovetail.Softmax": [{}]}}, "an entry of 'bit_exact' of dovetail.Softmax lacks dtypes"),
        (
            {"bit_exact": {"dovetail.Softmax": [{"dtypes": ["any"], "standart": "ieee"}]}},
            "an entry of 'bit_exact' of dovetail.Softmax takes dtypes, where, standard, not standart",
        ),
        (
            {"bit_exact": {"dovetail.Softmax": [{"dtypes": ["any"], "standard": "mine"}]}},
            "'standard' in 'bit_exact' of dovetail.Softmax is 'mine'; it must be one of kind, ieee, litert, onnx",
        ),
        ({"bit_exact": {"dovetail.Softmax": [{"dtypes": ["real"]}]}}, "'dtypes' of dovetail.Softmax must be a list of float"),
        (
            {"bit_exact": {"dovetail.Softmax": [{"dtypes": ["any"], "where": "small"}]}},
            "'where' of dovetail.Softmax names the conditions 'small', which 'claims' does not have",
        ),
        ({"deviations": {"dovetail.Softmax": {}}}, "the deviations of dovetail.Softmax must be a list"),
        ({"deviations": {"dovetail.Softmax": ["off"]}}, "an entry of 'deviations' of dovetail.Softmax must be an object"),
        ({"deviations": {"dovetail.Softmax": [{"dtypes": ["any"]}]}}, "lacks what, why"),
        ({"deviations": {"dovetail.Softmax": [{**DEVIATION, "why": " "}]}}, "'why' in 'deviations' of dovetail.Softmax"),
        ({"deviations": {"dovetail.Softmax": [{**DEVIATION, "what": "a\x1bb"}]}}, "must be a line of text"),
        (
            {"deviations": {"dovetail.Softmax": [{**DEVIATION, "absolute": -1}]}},
            "a finite number of at least 0, not -1",
        ),
        ({"deviations": {"dovetail.Softmax": [{**DEVIATION, "absolute": True}]}}, "must be a finite number"),
        ({"deviations": {"dovetail.Softmax": [{**DEVIATION, "nonfinite": 1}]}}, "'nonfinite' in 'deviations'"),
        ({"deviations": {"dovetail.Softmax": [{**DEVIATION, "absolute": 0}]}}, "must say by how much: give absolute, relative"),
        ({"late_failure": {}}, "'late_failure' must be an object of the backend's options, by name"),
    ],
)
def test_malformed_promises_are_refused_in_a_sentence(fields, sentence):
    with pytest.raises(ClaimsError) as caught:
        read_promises(fields)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("field", ["bit_exact", "deviations", "late_failure"])
def test_listing_refuses_a_promise_of_another_type(field):
    facts = {"id": "CpuAcme", "device": "cpu", "rank": 1, "description": "kernels"}
    check({**facts, field: {}})
    with pytest.raises(Refused, match=f"'{field}' in the manifest must be of type dict"):
        check({**facts, field: 3})
