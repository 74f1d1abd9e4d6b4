"""Names of classes in the metadata of a model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest

import dovetail
import dovetail_onnx
from dovetail.graph.meaning import Meaning
from dovetail_onnx.class_names import labels_in

NAMES = ["person", "teddy bear", "l'été", 'say "cheese"', "back\\slash", "{0: 'x'}", "naïve, or not"]


def model_with(**properties: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,7] x) => (float[1,7] y, float[1,7] z) { y = Relu(x) z = Neg(x) }'
    )
    for key, value in properties.items():
        model.metadata_props.add(key=key, value=value)
    return model


@pytest.mark.parametrize("key", ["names", "labels", "class_names", "classes", "id2label"])
@pytest.mark.parametrize(
    "value",
    [
        str(dict(enumerate(NAMES))),
        str(NAMES),
        json.dumps(NAMES),
        json.dumps(dict(enumerate(NAMES))),
        json.dumps(NAMES, ensure_ascii=False, indent=2),
        "{" + ", ".join(f"{number}: {name!r}" for number, name in reversed(list(enumerate(NAMES)))) + ",}",
    ],
)
def test_names_of_classes(key: str, value: str) -> None:
    network = dovetail_onnx.parse(model_with(description="of 7", **{key: value}, stride="32"))
    assert network.meanings == dict.fromkeys(("y", "z"), Meaning(labels=tuple(NAMES)))


def test_lines_and_commas() -> None:
    assert labels_in("a b\nc\n d ") == ("a b", "c", "d")
    assert labels_in("cat, dog") == ("cat", "dog")
    assert labels_in("cat") == ()


def test_a_class_without_a_name() -> None:
    assert labels_in("{0: 'a', 2: 'c'}") == ("a", "", "c")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "{",
            "[",
            "{}",
            "[]",
            "{0: 'a'",
            "{0: 1}",
            "[1, 2]",
            "{'a': 0}",
            "{-1: 'a'}",
            "{0: 'a' 1: 'b'}",
            "{0: 'a\\x'}",
        ),
        *("{0: __import__('os')}", "{999999999: 'a'}", "[" * 100_000, "{0: " + "(" * 100_000, '{"a": {"b": "c"}}', "[['a']]"),
        *("['a', 0: 'b']", "{0: 'a', 'b'}", "{²: 'a'}", "['" + "\\" * 99_999, "{0: f'{1}'}", "['a' 'b']", "{0: b'a'}"),
    ],
)
def test_what_is_no_list_of_names(value: str) -> None:
    assert labels_in(value) == ()
    assert dovetail_onnx.parse(model_with(names=value)).meanings == {}


def test_the_likeliest_key_that_can_be_read() -> None:
    network = dovetail_onnx.parse(model_with(labels='["b", "c"]', names="unreadable"))
    assert network.meanings["y"].labels == ("b", "c")
    network = dovetail_onnx.parse(model_with(labels='["b", "c"]', names="['a']"))
    assert network.meanings["y"].labels == ("a",)


def test_damaged_metadata_do_not_keep_a_model_from_running() -> None:
    model = model_with(names="['a', 'QQ']", labels="b\nc")
    data = model.SerializeToString().replace(b"'QQ'", b"'\xff\xfe'")
    network = dovetail_onnx.parse(data)
    assert network.meanings["y"].labels == ("a", "\ufffd\ufffd")
    x: Any = np.ones((1, 7), np.float32)
    with dovetail.load(network, ["CpuRef"]) as net:
        np.testing.assert_array_equal(net.run({"x": x})["z"], -x)


def test_too_long_to_be_names() -> None:
    assert dovetail_onnx.parse(model_with(names=str(["a" * (1 << 20)]))).meanings == {}
