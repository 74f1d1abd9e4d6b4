"""Operators that others translate: registered, called, refused, undone."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dovetail
from dovetail import DovetailError, ErrorCode, GraphError, ModelError, Network, OptionError, UnsupportedModelError
from dovetail_onnx import Node, Unsupported, operator, own_operators, parse
from dovetail_onnx.operators import HOME

X = np.random.default_rng(5).standard_normal((3, 5)).astype(np.float32)


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Leave nothing registered."""
    before = len(own_operators.OWN)
    yield
    own_operators.OWN.clear()
    assert len(own_operators.OWN) == before == 0


def model(op: str, domain: str = "my.ops", opset: int = 1, outputs: int = 1, inputs: int = 1, **attributes: Any) -> bytes:
    """Return a model of one node."""
    ends = [[f"{end}{i}" for i in range(count)] for end, count in (("x", inputs), ("y", outputs))]
    infos = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 5]) for name in names] for names in ends]
    node = helper.make_node(op, *ends, name="the_node", domain=domain, **attributes)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, opset)] if domain else [helper.make_opsetid("", opset)]
    made = helper.make_model(helper.make_graph([node], "g", *infos), opset_imports=opsets, ir_version=10)
    return bytes(made.SerializeToString())


def answer(content: bytes, name: str = "y0") -> np.ndarray[Any, Any]:
    with dovetail.load(parse(content), ["CpuRef"]) as net:
        return net.run(dict.fromkeys((spec.name for spec in net.inputs), X))[name]


def times(factor: float) -> Callable[[Node], Any]:
    return lambda node: node.network.multiplication(node.input(0), np.float32(factor), name=node.label())


def test_a_function_makes_layers_of_a_node() -> None:
    @operator("my.ops", "Frobnicate")
    def frobnicate(node: Node) -> Any:
        assert (node.op, node.domain, node.opset, node.name) == ("Frobnicate", "my.ops", 1, "the_node")
        scaled = node.network.multiplication(node.input(0), np.float32(node.floating("alpha")), name=node.label("scaled"))
        return node.network.addition(scaled, np.float32(node.integer("shift", 2)), name=node.label())

    np.testing.assert_allclose(answer(model("Frobnicate", alpha=1.5)), X * 1.5 + 2, rtol=1e-6)
    network = parse(model("Frobnicate", alpha=1.5))
    assert network.is_read_with_others
    assert network.layer("the_node").sources == network.layer("the_node/scaled").sources == ("the_node",)
    with pytest.raises(UnsupportedModelError, match="attribute 'beta' is not known"):
        parse(model("Frobnicate", alpha=1.5, beta=1))


def test_several_names_and_several_outputs() -> None:
    @operator("my.ops", "Both", "Twice", ignored=["note"])
    def both(node: Node) -> Any:
        return [times(2)(node), node.input(0)] if node.op == "Both" else times(2)(node)

    np.testing.assert_array_equal(answer(model("Both", outputs=2), "y1"), X)
    np.testing.assert_array_equal(answer(model("Twice", note=b"for people")), X * 2)
    with pytest.raises(UnsupportedModelError, match=r"output 1 \(y1\) is not there"):
        parse(model("Twice", outputs=2))


def test_the_latest_version_that_fits_is_asked() -> None:
    for since in (5, 1, 3):  # in any order
        operator("my.ops", "Versioned", since=since)(times(since))
    for opset, factor in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)):
        np.testing.assert_array_equal(answer(model("Versioned", opset=opset)), X * factor)
    operator("my.ops", "Late", since=4)(times(4))
    with pytest.raises(UnsupportedModelError, match="registered from operator set 4 on"):
        parse(model("Late", opset=3))


def test_twice_is_an_error_that_names_the_first() -> None:
    @operator("my.ops", "Frobnicate", "Other")
    def first(node: Node) -> Any:
        return times(2)(node)

    with pytest.raises(OptionError, match=r"Frobnicate of domain 'my.ops' since 1 .*first.*test_own_operators") as caught:
        operator("my.ops", "New", "Frobnicate")(times(3))
    assert caught.value.code is ErrorCode.OPTION_INVALID
    assert "replace=True" in str(caught.value)
    assert caught.value.details == {"domain": "my.ops", "op": "Frobnicate", "since": 1}
    with pytest.raises(UnsupportedModelError):
        parse(model("New"))  # all of a call is registered, or nothing
    operator("my.ops", "Frobnicate", since=2)(times(5))
    second = operator("my.ops", "Frobnicate", replace=True)(times(3))
    np.testing.assert_array_equal(answer(model("Frobnicate")), X * 3)
    np.testing.assert_array_equal(answer(model("Frobnicate", opset=2)), X * 5)
    second.unregister()
    np.testing.assert_array_equal(answer(model("Frobnicate")), X * 2)
    second.unregister()
    np.testing.assert_array_equal(answer(model("Frobnicate")), X * 2)
    first.unregister()
    with pytest.raises(UnsupportedModelError):
        parse(model("Other"))


@pytest.mark.parametrize("op", ["Relu", "Add", "Softmax"])
@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_an_operator_of_onnx_is_replaced_on_request_alone(op: str, domain: str) -> None:
    content = model(op, "", 21, inputs=2 if op == "Add" else 1)
    usual = answer(content)
    for since in (1, 14):
        with pytest.raises(OptionError, match=f"{op} of ai.onnx is translated by dovetail itself"):
            operator(domain, op, since=since)(times(7))
    with operator(domain, op, since=14, replace=True)(times(7)):
        np.testing.assert_array_equal(answer(content), X * 7)  # even if dovetail's is for a later one
        assert parse(content).is_read_with_others
    np.testing.assert_array_equal(answer(content), usual)
    with operator(domain, op, since=22, replace=True)(times(7)):
        np.testing.assert_array_equal(answer(content), usual)
        assert not parse(content).is_read_with_others


def test_an_operator_of_onnx_that_dovetail_lacks_needs_no_replacing() -> None:
    assert "Det" not in HOME
    with operator("", "Det")(times(3)):
        np.testing.assert_array_equal(answer(model("Det", "", 21)), X * 3)


def test_it_is_registered_until_its_block_ends() -> None:
    def frobnicate(node: Node) -> Any:
        """Frobnicate it."""
        return times(2)(node)

    with operator("my.ops", "Frobnicate")(frobnicate) as registered:
        assert (registered.__name__, registered.__doc__) == ("frobnicate", "Frobnicate it.")
        assert "my.ops.Frobnicate since 1 by" in repr(registered)
        with operator("my.ops", "Again")(registered):  # one function for operators of two calls
            np.testing.assert_array_equal(answer(model("Again")), X * 2)
        net = parse(model("Frobnicate"))
    with pytest.raises(UnsupportedModelError):
        parse(model("Frobnicate"))
    with dovetail.load(net, ["CpuRef"]) as loaded:  # what was read stays
        np.testing.assert_array_equal(loaded.run({"x0": X})["y0"], X * 2)


def failing(error: BaseException) -> Callable[[Node], Any]:
    def fails(node: Node) -> Any:
        raise error

    return fails


@pytest.mark.parametrize("error", [ValueError("no luck"), KeyError("k"), RuntimeError("r"), AssertionError(), OSError(2, "no")])
def test_a_failure_names_operator_node_and_function(error: Exception) -> None:
    operator("my.ops", "Frobnicate")(failing(error))
    with pytest.raises(ModelError) as caught:
        parse(model("Frobnicate", opset=6))
    assert caught.value.code is ErrorCode.OPERATOR_FAILED
    assert caught.value.__cause__ is error
    text = str(caught.value)
    assert "node 'the_node' (my.ops.Frobnicate, opset 6)" in text
    assert re.search(r"failing\.<locals>\.fails \(.*test_own_operators\.py:\d+\)", text)
    assert type(error).__name__ in text
    details = caught.value.details
    assert (details["op"], details["domain"], details["node"]) == ("Frobnicate", "my.ops", "the_node")
    assert "failing.<locals>.fails" in details["function"]


def test_errors_of_dovetail_keep_their_class_and_code() -> None:
    @operator("my.ops", "Misshapen")
    def misshapen(node: Node) -> Any:
        return node.network.addition(node.input(0), np.zeros((4, 4), np.float32), name=node.label())

    @operator("my.ops", "Needs")
    def needs(node: Node) -> Any:
        return node.network.relu(node.input(node.integer("which")))

    with pytest.raises(GraphError) as shape:
        parse(model("Misshapen"))
    assert shape.value.code is ErrorCode.SHAPE_MISMATCH
    with pytest.raises(ModelError, match="lacks its attribute 'which'") as attribute:
        parse(model("Needs"))
    with pytest.raises(ModelError, match="lacks its input 3") as absent:
        parse(model("Needs", which=3))
    assert attribute.value.code is absent.value.code is ErrorCode.MODEL_MALFORMED
    for caught, function in ((shape, "misshapen"), (attribute, "needs"), (absent, "needs")):
        assert isinstance(caught.value.__cause__, DovetailError)
        assert f"{function} (" in str(caught.value)
        assert "'the_node' (my.ops." in str(caught.value)


def test_what_a_function_refuses_is_listed() -> None:
    operator("my.ops", "Frobnicate")(failing(Unsupported("only on Sundays", attribute="day")))
    with pytest.raises(UnsupportedModelError, match="only on Sundays") as caught:
        parse(model("Frobnicate"))
    assert caught.value.details["unsupported"][0]["attribute"] == "day"
    assert "dovetail_onnx.operator" not in str(caught.value)  # it is registered


def test_what_is_not_the_functions_fault_goes_through() -> None:
    error = KeyboardInterrupt()
    with operator("my.ops", "Frobnicate")(failing(error)), pytest.raises(KeyboardInterrupt) as caught:
        parse(model("Frobnicate"))
    assert caught.value is error
    with operator("my.ops", "Frobnicate")(failing(MemoryError())), pytest.raises(ModelError) as memory:
        parse(model("Frobnicate"))
    assert memory.value.code is ErrorCode.OUT_OF_MEMORY


def elsewhere(node: Node) -> Any:
    return Network("another").input("x0", (3, 5))


@pytest.mark.parametrize(
    ("function", "text", "hint"),
    [
        (lambda node: None, "returned None", "return the slot"),
        (lambda node: node.network.layer("x0"), "returned a Layer", "return the layer's `output`"),
        (lambda node: [node.input(0), 3], "returned a int", "return the slot"),
        (lambda node: "x0", "returned a str", "return the slot"),
        (lambda node: {node.input(0): 1}, "returned a dict", "return the slot"),
        (elsewhere, "a slot of another network", "`node.network`"),
    ],
)
def test_a_wrong_result_is_said_so(function: Any, text: str, hint: str) -> None:
    operator("my.ops", "Frobnicate")(function)
    with pytest.raises(ModelError, match=text) as caught:
        parse(model("Frobnicate"))
    assert caught.value.code is ErrorCode.OPERATOR_FAILED
    assert hint in str(caught.value)
    assert "my.ops.Frobnicate" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("Swish",), {}, "names a domain and no operator"),
        ((3, "Swish"), {}, "the domain is 3"),
        (("my.ops", ""), {}, "an operator is called ''"),
        (("my.ops", b"Swish"), {}, "an operator is called b'Swish'"),
        (("my.ops", "Swish"), {"since": 0}, "since is 0"),
        (("my.ops", "Swish"), {"since": "1"}, "since is '1'"),
        (("my.ops", "Swish"), {"since": True}, "since is True"),
        (("my.ops", "Swish"), {"ignored": "note"}, "ignored is 'note'"),
        (("", "If"), {"replace": True}, "If cannot be translated"),
        (("ai.onnx", "If"), {"replace": True}, "If cannot be translated"),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, options: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text) as caught:
        operator(*arguments, **options)(times(2))
    assert caught.value.code is ErrorCode.OPTION_INVALID


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(OptionError, match="no function"):
        operator("my.ops", "Frobnicate")(None)  # type: ignore[arg-type]  # refused on purpose


@pytest.mark.parametrize(("domain", "op", "opset"), [("my.ops", "Frobnicate", 1), ("", "Det", 21), ("", "Wobble", 21)])
def test_an_unknown_operator_says_how_to_register_one(domain: str, op: str, opset: int) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model(op, domain, opset))
    assert f"@dovetail_onnx.operator({domain!r}, {op!r})" in caught.value.hint
    assert "docs/your_own_operator.md" in caught.value.hint


def test_names_in_the_hint_are_cut() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model("M" * 5000))
    assert len(caught.value.hint) < 400


def test_a_function_of_the_model_comes_first() -> None:
    content = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]> g (float[3,5] x0) => (float[3,5] y0)
        { y0 = my.ops.Frobnicate(x0) }
        <domain: "my.ops", opset_import: ["" : 21]> Frobnicate (a) => (b) { b = Neg(a) }"""
    ).SerializeToString()
    operator("my.ops", "Frobnicate")(times(2))
    np.testing.assert_array_equal(answer(content), -X)


def test_threads_register_and_read_at_once() -> None:
    """Of threads that want the same operator one gets it; readers meet whole registrations."""
    stop, won, wrong = threading.Event(), [], []
    content = model("Contested")

    def contend(factor: int) -> None:
        while not stop.is_set():
            try:
                with operator("my.ops", "Contested")(times(factor)) as registered:
                    won.append(registered)
                    mine = own_operators.find_own("my.ops", "Contested", 1)
                    if mine is None or mine.registered is not registered:
                        wrong.append(mine)
            except OptionError:
                continue
            finally:
                operator("my.ops", f"Own{factor}", since=factor)(times(factor)).unregister()

    def read() -> None:
        while not stop.is_set():
            try:
                (layer,) = (one for one in parse(content) if one.name == "the_node")
            except UnsupportedModelError:
                continue
            except Exception as error:
                wrong.append(error)
            else:
                if layer.kind != "dovetail.ElementwiseBinary":
                    wrong.append(layer)

    threads = [threading.Thread(target=contend, args=(k,)) for k in range(1, 5)] + [threading.Thread(target=read) for _ in "ab"]
    for thread in threads:
        thread.start()
    stop.wait(1.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(won) > 10


def test_a_loaded_network_stays_what_the_function_made_of_it(tmp_path: Any) -> None:
    file, x = tmp_path / "model.onnx", np.full((3, 5), -2.0, np.float32)
    file.write_bytes(model("Frobnicate"))
    with operator("my.ops", "Frobnicate")(times(2.0)):
        net = dovetail.load(file, "CpuRef")
    for other in (None, times(5.0)):
        registered = None if other is None else operator("my.ops", "Frobnicate")(other)
        inner = net.run({"x0": x}, outputs=["the_node", "y0"])  # which is planned from the network as it was read
        np.testing.assert_array_equal(inner["y0"], net.run({"x0": x})["y0"])
        np.testing.assert_array_equal(inner["the_node"], 2 * x)
        if registered is not None:
            registered.unregister()
    net.unload()


def test_what_the_collector_unregisters_holds_nobody_up() -> None:
    class Plugin:
        def __init__(self, number: int) -> None:
            self.me = self  # so that the collector frees it, while another one may be registering
            self.registered = operator("my.ops", f"Own{number}")(times(1.0))

        def __del__(self) -> None:
            self.registered.unregister()

    def register() -> None:
        for number in range(3000):
            Plugin(number)
        done.set()

    done = threading.Event()
    threading.Thread(target=register, daemon=True).start()
    assert done.wait(60)
    gc.collect()
    assert own_operators.find_own("my.ops", "Own2999", 1) is None


def test_what_was_unregistered_is_not_held() -> None:
    content = model("Frobnicate")
    functions = []
    for factor in range(3):
        function = times(factor)
        functions.append(weakref.ref(function))
        with operator("my.ops", "Frobnicate")(function):
            parse(content)
        del function
    gc.collect()
    assert [one() for one in functions] == [None] * 3


class Unprintable(ValueError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OddModelError(ModelError):
    def __init__(self) -> None:
        super().__init__("mine")


@pytest.mark.parametrize(("error", "text"), [(Unprintable(), "cannot be printed"), (OddModelError(), "mine")])
def test_odd_exceptions_are_told_of_the_function(error: Exception, text: str) -> None:
    with operator("my.ops", "Frobnicate")(failing(error)), pytest.raises(ModelError) as caught:
        parse(model("Frobnicate"))
    assert "the function " in str(caught.value)
    assert text in str(caught.value)
