"""What the fuzzer excuses: each rule holds for what it is about, and not beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from tools.fuzz.comparing import Difference, difference
from tools.fuzz.peers import installed_peer
from tools.fuzz.unsettled import is_unsettled

import dovetail
from dovetail_onnx import parse

NAN = float("nan")
TEXTS = {
    "quantize": "(float[4] x, float s) => (uint8[4] y) { y = QuantizeLinear(x, s, three) }",
    "multiply": "(uint8[2,2] x, float s) => (uint8[2,2] y) { y = QLinearMatMul(x, tenth, three, x, tenth, three, s, three) }",
    "largest": "(float[1,1,2,2] x) => (float[1,1,1,1] y) { y = GlobalMaxPool(x) }",
    "sign of zero": "(float[2] x) => (float[2] y) { z = Selu(x)  y = Reciprocal(z) }",
    "recurrent": """(float[N,1,1] x, float[1,2,1] w, float[1,2,2] r, int32[1] n) => (float[1,1,2] y)
    { z, y = RNN<hidden_size = 2>(x, w, r, , n) }""",
    "pool": """(float[1,1,7] x) => (float[1,1,N] y)
    { y = LpPool<kernel_shape = [3], dilations = [2], auto_pad = "SAME_UPPER">(x) }""",
}
INTEGERS, ODD = Difference("integers", "y", "3 against 0"), Difference("non-finite", "y", "inf against -inf")
X = np.array([1, 2, 3, 4], np.float32)
Q = np.array([[3, 3], [3, 3]], np.uint8)
WEIGHTS = {"w": np.ones((1, 2, 1), np.float32), "r": np.ones((1, 2, 2), np.float32)}
STEPS = {"x": X.reshape(4, 1, 1), "n": np.array([4], np.int32), **WEIGHTS}
UNWRITTEN = Difference("non-finite", "y", "0 against nan")
RULES: list[tuple[str, dict[str, Any], Difference, bool]] = [
    ("quantize", {"x": X * np.float32(NAN), "s": np.float32(1)}, INTEGERS, True),
    ("quantize", {"x": X * 0, "s": np.float32(0)}, INTEGERS, True),
    ("quantize", {"x": X, "s": np.float32(1)}, INTEGERS, False),
    ("multiply", {"x": Q, "s": np.float32(0)}, INTEGERS, True),
    ("multiply", {"x": Q, "s": np.float32(1)}, INTEGERS, False),
    ("largest", {"x": X.reshape(1, 1, 2, 2)}, Difference("non-finite", "y", "nan against 3"), True),
    ("largest", {"x": X.reshape(1, 1, 2, 2)}, Difference("values", "y", "4 against 3"), False),
    ("sign of zero", {"x": X[:2] * 0}, ODD, True),
    ("sign of zero", {"x": X[:2]}, ODD, False),
    ("sign of zero", {"x": X[:2] * 0}, Difference("non-finite", "y", "inf against nan"), False),
    ("recurrent", {**STEPS, "x": STEPS["x"][:0], "n": STEPS["n"] * 0}, UNWRITTEN, True),
    ("recurrent", {**STEPS, "n": STEPS["n"] * 0}, UNWRITTEN, True),
    ("recurrent", STEPS, UNWRITTEN, False),
    ("pool", {"x": np.ones((1, 1, 7), np.float32)}, Difference("shape", "y", "(1, 1, 7) against (1, 1, 5)"), True),
]


def model(name: str) -> onnx.ModelProto:
    constants = "<uint8 three = {3}, float tenth = {0.1}>"
    signature, _, body = TEXTS[name].partition("=> ")
    result, _, nodes = body.partition("{")
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 21]> g {signature}=> {result}{constants} {{{nodes}')


@pytest.mark.parametrize(("name", "feeds", "found", "wanted"), RULES)
def test_a_rule_excuses_what_it_names_alone(name: str, feeds: dict[str, Any], found: Difference, wanted: bool) -> None:
    assert is_unsettled(model(name), feeds, found) is wanted


@pytest.mark.parametrize(("name", "x"), [("largest", [[[[1, NAN], [2, 3]]]]), ("pool", [[[1, 2, 3, 4, 5, 6, 7]]])])
def test_what_is_excused_does_differ_from_the_peer(name: str, x: Any, tmp_path: Any) -> None:
    peer = installed_peer()
    if peer is None:
        pytest.skip("onnxruntime is not installed")
    proto, path, feeds = model(name), tmp_path / "model.onnx", {"x": np.array(x, np.float32)}
    onnx.save(proto, path)
    with dovetail.load(parse(proto), ["CpuRef"]) as net:
        ours = net.run(feeds)
    theirs = peer().run(path, feeds)
    assert theirs is not None
    found = difference(ours, theirs)
    assert found is not None
    assert is_unsettled(proto, feeds, found)
