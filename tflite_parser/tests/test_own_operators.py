"""Operators that others translate: registered, called, refused, undone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_making import Model

import dovetail
from dovetail import DovetailError, ErrorCode, GraphError, ModelError, OptionError, UnsupportedModelError
from dovetail_tflite import Call, Unsupported, builtin_operator, custom_operator, own_operators, parse
from dovetail_tflite.operators import HOME

F32 = np.float32
SHAPE = (1, 3, 5)
X = np.random.default_rng(5).standard_normal(SHAPE).astype(F32)
EXAMPLE = Path(__file__).parents[2] / "examples" / "tflite" / "frobnicate.tflite"


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Leave nothing registered."""
    before = len(own_operators.OWN)
    yield
    own_operators.OWN.clear()
    assert len(own_operators.OWN) == before == 0


def model(name: str = "custom:Frobnicate", version: int = 1, outputs: int = 1, dtype: Any = F32, **options: Any) -> bytes:
    """Return a model of one operator."""
    made = Model()
    graph = made.main
    ends = [graph.output(graph.tensor(f"y{index}", dtype, SHAPE)) for index in range(outputs)]
    fields = {"custom_options": bytes(flexbuffers.Dumps(options))} if options else {}
    graph.operator(name, [graph.input("x", F32, SHAPE)], ends, version=version, **fields)
    return made.build()


def answer(content: bytes, name: str = "y0") -> np.ndarray[Any, Any]:
    with dovetail.load(parse(content), ["CpuRef"]) as net:
        return net.run({"x": X})[name]


def times(factor: float) -> Callable[[Call], Any]:
    return lambda call: call.network.multiplication(call.input(0), np.float32(factor), name=call.label())


def test_the_model_of_the_page_is_what_it_is_said_to_be() -> None:
    made = Model("with_frobnicate")
    graph = made.main
    x, positive = graph.input("x", F32, (1, 3, 5), signature=(-1, 3, 5)), graph.tensor("positive", F32, (1, 3, 5))
    graph.operator("RELU", [x], [positive])
    y = graph.output(graph.tensor("y", F32, (1, 3, 5), signature=(-1, 3, 5)))
    graph.operator("custom:Frobnicate", [positive], [y], custom_options=bytes(flexbuffers.Dumps({"alpha": 2.0})))
    assert EXAMPLE.read_bytes() == made.build()


def test_a_function_makes_layers_of_an_operator() -> None:
    @custom_operator("Frobnicate")
    def frobnicate(call: Call) -> Any:
        assert (call.op, call.version, call.name) == ("Frobnicate", 1, "y0")
        alpha = call.custom_numbers()["alpha"]
        assert alpha is not None
        scaled = call.network.multiplication(call.input(0), np.float32(alpha), name=call.label("scaled"))
        return call.network.addition(scaled, np.float32(2), name=call.label())

    content = model(alpha=1.5)
    np.testing.assert_allclose(answer(content), X * 1.5 + 2, rtol=1e-6)
    network = parse(content)
    assert network.is_read_with_others
    assert network.layer("y0/scaled").sources == ("y0",)
    with pytest.raises(ModelError, match=r"operator Frobnicate .* has broken options") as caught:
        parse(model())
    assert caught.value.code is ErrorCode.MODEL_MALFORMED


def test_several_names_and_several_outputs() -> None:
    @custom_operator("Both", "Twice")
    def both(call: Call) -> Any:
        return [times(2)(call), call.input(0)] if call.op == "Both" else times(2)(call)

    np.testing.assert_array_equal(answer(model("custom:Both", outputs=2), "y1"), X)
    np.testing.assert_array_equal(answer(model("custom:Twice")), X * 2)


def test_the_version_decides_who_is_asked() -> None:
    for newest in (5, 1, 3):  # in any order
        custom_operator("Versioned", newest=newest)(times(newest))
    for version, factor in ((1, 1), (2, 3), (3, 3), (4, 5), (5, 5)):
        np.testing.assert_array_equal(answer(model("custom:Versioned", version)), X * factor)
    with pytest.raises(UnsupportedModelError, match="its translation is registered up to version 5"):
        parse(model("custom:Versioned", 6))
    with custom_operator("Versioned", newest=3, replace=True)(times(7)):
        np.testing.assert_array_equal(answer(model("custom:Versioned", 2)), X * 7)
    np.testing.assert_array_equal(answer(model("custom:Versioned", 2)), X * 3)


def test_twice_is_an_error_that_names_the_first() -> None:
    @custom_operator("Frobnicate", "Other")
    def first(call: Call) -> Any:
        return times(2)(call)

    with pytest.raises(OptionError, match=r"Frobnicate to version 1 .*first.*test_own_operators") as caught:
        custom_operator("New", "Frobnicate")(times(3))
    assert caught.value.code is ErrorCode.OPTION_INVALID
    assert "replace=True to custom_operator()" in str(caught.value)
    assert caught.value.details == {"op": "Frobnicate", "newest": 1}
    with pytest.raises(UnsupportedModelError):
        parse(model("custom:New"))  # all of a call is registered, or nothing
    second = custom_operator("Frobnicate", replace=True)(times(3))
    np.testing.assert_array_equal(answer(model()), X * 3)
    for _ in range(2):
        second.unregister()
        np.testing.assert_array_equal(answer(model()), X * 2)
    first.unregister()
    with pytest.raises(UnsupportedModelError):
        parse(model("custom:Other"))


def test_what_dovetail_translates_is_replaced_on_request_alone() -> None:
    for name, register in (("RELU", builtin_operator), ("TFLite_Detection_PostProcess", custom_operator)):
        with pytest.raises(OptionError, match=f"{name} is translated by dovetail itself"):
            register(name)(times(7))
    content = model("RELU")
    with builtin_operator("RELU", replace=True)(times(7)):
        np.testing.assert_array_equal(answer(content), X * 7)
        assert parse(content).is_read_with_others
    np.testing.assert_array_equal(answer(content), np.maximum(X, 0))
    with custom_operator("RELU")(times(7)):  # which is no operator of TensorFlow Lite
        np.testing.assert_array_equal(answer(content), np.maximum(X, 0))
        assert not parse(content).is_read_with_others
        np.testing.assert_array_equal(answer(model("custom:RELU")), X * 7)
    with builtin_operator("RELU", newest=1, replace=True)(times(7)):  # not for a later one
        np.testing.assert_array_equal(answer(model("RELU", 2)), np.maximum(X, 0))


def test_an_operator_that_dovetail_lacks_needs_no_replacing() -> None:
    assert "DILATE" not in HOME
    with builtin_operator("DILATE")(times(3)):
        np.testing.assert_array_equal(answer(model("DILATE")), X * 3)


def test_it_is_registered_until_its_block_ends() -> None:
    def frobnicate(call: Call) -> Any:
        """Frobnicate it."""
        return times(2)(call)

    with custom_operator("Frobnicate")(frobnicate) as registered:
        assert (registered.__name__, registered.__doc__) == ("frobnicate", "Frobnicate it.")
        assert "custom Frobnicate to version 1 by" in repr(registered)
        assert (registered.names, registered.newest, registered.is_custom) == (("Frobnicate",), 1, True)
        with custom_operator("Again")(registered):  # one function for operators of two calls
            np.testing.assert_array_equal(answer(model("custom:Again")), X * 2)
        net = parse(model())
    with pytest.raises(UnsupportedModelError):
        parse(model())
    with dovetail.load(net, ["CpuRef"]) as loaded:  # what was read stays
        np.testing.assert_array_equal(loaded.run({"x": X})["y0"], X * 2)


def failing(error: BaseException) -> Callable[[Call], Any]:
    def fails(call: Call) -> Any:
        raise error

    return fails


@pytest.mark.parametrize("error", [ValueError("no luck"), KeyError("k"), AssertionError(), OSError(2, "no"), TypeError("t")])
def test_a_failure_names_operator_and_function(error: Exception) -> None:
    """Also those errors that a file may cause by itself."""
    custom_operator("Frobnicate", newest=6)(failing(error))
    with pytest.raises(ModelError) as caught:
        parse(model(version=6))
    assert caught.value.code is ErrorCode.OPERATOR_FAILED
    assert caught.value.__cause__ is error
    assert "operator 'y0' (Frobnicate, version 6): the function " in str(caught.value)
    assert "test_own_operators.py:" in str(caught.value)
    assert caught.value.details.keys() == {"node", "op", "function"}


def test_errors_of_dovetail_keep_class_and_code() -> None:
    custom_operator("Frobnicate")(lambda call: call.network.reshape(call.input(0), (4, 4)))
    with pytest.raises(DovetailError, match=r"the function .* failed: layer 'reshape'") as caught:
        parse(model())
    assert caught.value.code is ErrorCode.SHAPE_MISMATCH
    assert isinstance(caught.value.__cause__, GraphError)


def test_what_a_function_refuses_is_listed() -> None:
    custom_operator("Frobnicate")(failing(Unsupported("it is too odd")))
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model())
    (entry,) = caught.value.details["unsupported"]
    assert entry == {"op": "Frobnicate", "version": 1, "node": "y0", "reason": "it is too odd"}
    assert "custom_operator" not in str(caught.value.hint)  # there is one


def elsewhere(call: Call) -> Any:
    return dovetail.Network("other").input("x0", SHAPE)


@pytest.mark.parametrize(
    ("function", "text", "hint"),
    [
        (lambda call: None, "returned None, expected an output slot", "`call.network`"),
        (lambda call: [None], "returned 0 slots for 1 outputs", "one for each output"),
        (lambda call: call.network.relu(call.input(0)).layer, "returned a Layer", "`output`"),
        (lambda call: 3, "returned a int", "return the slot"),
        (lambda call: [call.input(0)] * 2, "returned 2 slots for 1 outputs", "one for each output"),
        (lambda call: call.network.cast(call.input(0), "int32"), "returned int32 for output 0, but the file says float32", ""),
        (elsewhere, "a slot of another network", "`call.network`"),
    ],
)
def test_a_wrong_result_is_said_so(function: Any, text: str, hint: str) -> None:
    custom_operator("Frobnicate")(function)
    with pytest.raises(ModelError, match=text) as caught:
        parse(model())
    assert caught.value.code is ErrorCode.OPERATOR_FAILED
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("register", "names", "options", "text"),
    [
        (custom_operator, (), {}, r"custom_operator\(\) names no operator"),
        (custom_operator, (times(1),), {}, r"custom_operator names no operator.*\n?.*@custom_operator\('Swish'\)"),
        (builtin_operator, (), {}, r"builtin_operator\(\) names no operator"),
        (custom_operator, ("",), {}, "an operator is called ''"),
        (custom_operator, (b"Swish",), {}, "an operator is called b'Swish'"),
        (custom_operator, ("Swish",), {"newest": 0}, "newest is 0"),
        (custom_operator, ("Swish",), {"newest": True}, "newest is True"),
        (custom_operator, ("Swish",), {"newest": "1"}, "newest is '1'"),
        (builtin_operator, ("Swish",), {}, "no builtin operator 'Swish'"),
        (builtin_operator, ("CUSTOM",), {}, "no builtin operator 'CUSTOM'"),
        (builtin_operator, ("READ_VARIABLE",), {"replace": True}, "READ_VARIABLE cannot be translated by others"),
    ],
)
def test_wrong_arguments_are_refused(register: Any, names: Any, options: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text) as caught:
        register(*names, **options)(times(2))
    assert caught.value.code is ErrorCode.OPTION_INVALID


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(OptionError, match="no function"):
        custom_operator("Frobnicate")(None)  # type: ignore[arg-type]  # refused on purpose


@pytest.mark.parametrize(
    ("name", "called"), [("custom:Mine", "custom_operator('Mine')"), ("DILATE", "builtin_operator('DILATE')")]
)
def test_an_unknown_operator_says_how_to_register_one(name: str, called: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model(name))
    assert f"@dovetail_tflite.{called}" in str(caught.value.hint)
    assert "docs/your_own_operator.md" in str(caught.value.hint)


def test_names_in_the_hint_are_cut() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        parse(model(f"custom:{'M' * 5000}"))
    assert len(str(caught.value.hint)) < 400


def test_threads_register_and_read_at_once() -> None:
    """Of threads that want the same operator one gets it; readers meet whole registrations."""
    stop, won, wrong = threading.Event(), [], []
    content = model("custom:Contested")

    def contend(factor: int) -> None:
        while not stop.is_set():
            try:
                with custom_operator("Contested")(times(factor)) as registered:
                    won.append(registered)
                    mine = own_operators.find_own("Contested", 1, is_custom=True)
                    if mine is None or mine.registered is not registered:
                        wrong.append(mine)
            except OptionError:
                continue

    def read() -> None:
        while not stop.is_set():
            try:
                (_,) = (one for one in parse(content) if one.kind == "dovetail.ElementwiseBinary")
            except UnsupportedModelError:
                continue
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=contend, args=(k,)) for k in range(1, 5)] + [threading.Thread(target=read) for _ in "ab"]
    for thread in threads:
        thread.start()
    stop.wait(1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(won) > 10


def test_a_loaded_network_stays_what_the_function_made_of_it(tmp_path: Path) -> None:
    file = tmp_path / "model.tflite"
    file.write_bytes(model())
    with custom_operator("Frobnicate")(times(2.0)):
        net = dovetail.load(file, "CpuRef")
    for other in (None, times(5.0)):
        registered = None if other is None else custom_operator("Frobnicate")(other)
        inner = net.run({"x": X}, outputs=["y0"])  # which is planned from the network as it was read
        np.testing.assert_array_equal(inner["y0"], 2 * X)
        if registered is not None:
            registered.unregister()
    net.unload()
