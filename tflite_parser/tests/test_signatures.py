"""Signatures name inputs and outputs, and choose among the subgraphs of a model."""

import numpy as np
import pytest
from tflite_making import Model

import dovetail
from dovetail_tflite import parse

A, B = np.array([1, 2, 3], np.float32), np.array([10, 20, 40], np.float32)


def of_two(*, subgraphs=("SUB",)):
    """A model of two inputs, with an operator in each of its subgraphs; the tensors are p, q, r."""
    model = Model()
    for place, name in enumerate(subgraphs):
        graph = model.main if place == 0 else model.subgraph(f"function {place}")
        p, q = (graph.input(tensor, np.float32, (3,)) for tensor in "pq")
        graph.operator(name, [p, q], [graph.output(graph.tensor("r", np.float32, (3,)))], {})
    return model


def names(model, **chosen):
    network = parse(model.build(), **chosen)
    return [layer.name for layer in network.inputs], [layer.name for layer in network.outputs]


def run(model, feeds, **chosen):
    with dovetail.load(parse(model.build(), **chosen), "CpuRef") as net:
        return net.run(feeds)


def test_without_signature_tensors_keep_their_names():
    assert names(of_two()) == (["p", "q"], ["r"])


def test_the_only_signature_names_the_ends_in_the_order_of_the_subgraph():
    model = of_two()
    model.signature("serving_default", {"b": 1, "a": 0}, {"difference": 2})
    assert names(model) == (["a", "b"], ["difference"])
    np.testing.assert_array_equal(run(model, {"a": A, "b": B})["difference"], A - B)
    np.testing.assert_array_equal(run(model, {"b": A, "a": B})["difference"], B - A)


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"a": 0}, {"y": 2}, (["p", "q"], ["y"])),
        ({"a": 0, "b": 0}, {"y": 2}, (["p", "q"], ["y"])),
        ({"a": 0, "": 1}, {"y": 2}, (["p", "q"], ["y"])),
        ({"a": 0, "b": 2}, {"y": 2}, (["p", "q"], ["y"])),
        ({"a": 0, "b": 1}, {}, (["a", "b"], ["r"])),
        ({"a": 0, "b": 1}, {"y": 1}, (["a", "b"], ["r"])),
        ({"r": 0, "q": 1}, {"p": 2}, (["r", "q"], ["p"])),
        ({"a": 0, "b": 1}, {"a": 2}, (["a", "b"], ["a_output"])),
    ],
    ids=["one left out", "one twice", "one without name", "no input", "no output", "no such output", "of others", "of both"],
)
def test_an_end_that_is_not_named_whole_keeps_the_names_of_its_tensors(inputs, outputs, expected):
    model = of_two()
    model.signature("serving_default", inputs, outputs)
    assert names(model) == expected


def test_results_that_share_a_tensor_have_a_name_each():
    model = of_two()
    graph = model.main
    graph.operator("MUL", [0, 1], [graph.output(graph.tensor("s", np.float32, (3,)))], {})
    graph.output(2)
    model.signature("serving_default", {"a": 0, "b": 1}, {"minus": 2, "times": 3, "again": 2})
    assert names(model) == (["a", "b"], ["minus", "times", "again"])
    found = run(model, {"a": A, "b": B})
    for name, expected in (("minus", A - B), ("times", A * B), ("again", A - B)):
        np.testing.assert_array_equal(found[name], expected)


def test_results_whose_tensors_are_named_otherwise_keep_the_names_of_these():
    model = of_two()
    model.main.output(2)
    model.signature("serving_default", {"a": 0, "b": 1}, {"minus": 2, "of an input": 0})
    assert names(model) == (["a", "b"], ["r", "r_output"])


def test_a_name_that_two_inputs_share_is_nobodys():
    model = of_two()
    model.signature("serving_default", {"a": 0, "b": 1}, {"y": 2})
    model.tree["signature_defs"][0]["inputs"][1]["name"] = "a"
    assert names(model) == (["p", "q"], ["y"])


def test_of_two_signatures_of_the_first_subgraph_neither_is_chosen():
    model = of_two()
    model.signature("one", {"a": 0, "b": 1}, {"y": 2})
    model.signature("two", {"c": 0, "d": 1}, {"z": 2})
    assert names(model) == (["p", "q"], ["r"])
    assert names(model, signature="two") == (["c", "d"], ["z"])


def test_a_signature_chooses_its_subgraph():
    model = of_two(subgraphs=("SUB", "MUL"))
    model.signature("times", {"a": 0, "b": 1}, {"product": 2}, subgraph=1)
    model.signature("minus", {"a": 0, "b": 1}, {"difference": 2})
    feeds = {"a": A, "b": B}
    np.testing.assert_array_equal(run(model, feeds)["difference"], A - B)
    np.testing.assert_array_equal(run(model, feeds, signature="minus")["difference"], A - B)
    np.testing.assert_array_equal(run(model, feeds, signature="times")["product"], A * B)


@pytest.mark.parametrize("keys", [(), ("encode", "decode")])
def test_an_unknown_key_is_an_error_that_tells_the_keys(keys):
    model = of_two()
    for key in keys:
        model.signature(key, {}, {})
    with pytest.raises(dovetail.ModelError, match="no signature 'other'") as caught:
        parse(model.build(), signature="other")
    assert caught.value.code == dovetail.ErrorCode.MODEL_NOT_FOUND
    assert all(repr(key) in caught.value.message for key in keys)


@pytest.mark.parametrize("index", [1, 2**32 - 1])
def test_a_subgraph_that_is_not_there(index):
    model = of_two()
    model.signature("far", {}, {}, subgraph=index)
    assert names(model) == (["p", "q"], ["r"])  # nobody asked for it
    with pytest.raises(dovetail.ModelError, match=f"signature 'far' of subgraph {index} of 1"):
        parse(model.build(), signature="far")


def test_a_key_that_two_signatures_have():
    model = of_two()
    for _ in range(2):
        model.signature("same", {"a": 0, "b": 1}, {"y": 2})
    with pytest.raises(dovetail.ModelError, match="2 signatures 'same'"):
        parse(model.build(), signature="same")


def test_too_many_signatures():
    model = of_two()
    model.tree["signature_defs"] = [{"signature_key": "k"}] * 2000
    with pytest.raises(dovetail.ModelError, match="2000 signatures"):
        parse(model.build())
