"""Variables: resources that operators read and write by name, and what gives them first values."""

import numpy as np
import pytest
import tflite_making as making

import dovetail
from dovetail_tflite import parse

HALF = np.full(3, 0.5, np.float32)


def counter(*, initial=None):
    """A model that adds its input to a variable, and gives what the variable then holds."""
    model = making.Model()
    main = model.main
    if initial is not None:
        first = model.subgraph("first")
        handle = first.tensor("handle", "resource", ())
        first.operator("VAR_HANDLE", [], [handle], {"shared_name": "total"})
        first.operator("ASSIGN_VARIABLE", [handle, first.constant("value", initial)], [])
        main.operator("CALL_ONCE", [], [], {"init_subgraph_index": 1})
    x, handle = main.input("x", "float32", (3,)), main.tensor("handle", "resource", ())
    before, after = main.tensor("before", "float32", (3,)), main.tensor("after", "float32", (3,))
    main.operator("VAR_HANDLE", [], [handle], {"shared_name": "total"})
    main.operator("READ_VARIABLE", [handle], [before])
    main.operator("ADD", [before, x], [after], {})
    main.operator("ASSIGN_VARIABLE", [handle, after], [])
    again = main.tensor("again", "float32", (3,))
    main.operator("READ_VARIABLE", [handle], [again])
    main.output(again)
    return model


def test_a_variable_is_read_as_it_was_written():
    with dovetail.load(parse(counter().build()), "CpuRef") as net:
        assert [spec.name for spec in net.inputs] == ["x"]
        assert [spec.name for spec in net.outputs] == ["again"]
        for count in (1, 2, 3):
            assert (net.run({"x": HALF})["again"] == 0.5 * count).all()
        net.reset_state()
        assert (net.run({"x": HALF})["again"] == 0.5).all()


def test_a_subgraph_that_runs_once_gives_first_values():
    first = np.array([1, 2, 3], np.float32)
    with dovetail.load(parse(counter(initial=first).build()), "CpuRef") as net:
        assert (net.run({"x": HALF})["again"] == first + 0.5).all()
        assert (net.run({"x": HALF})["again"] == first + 1).all()
        net.reset_state()
        assert (net.run({"x": HALF})["again"] == first + 0.5).all()


def test_a_first_value_of_another_shape_is_refused():
    with pytest.raises(dovetail.ModelError, match="initial value"):
        parse(counter(initial=np.ones(4, np.float32)).build())


def test_a_variable_is_not_written_in_a_branch():
    model = making.Model()
    main, inner = model.main, model.subgraph("inner")
    x = main.input("x", "float32", (3,))
    y, handle = inner.input("y", "float32", (3,)), inner.tensor("handle", "resource", ())
    inner.operator("VAR_HANDLE", [], [handle], {"shared_name": "total"})
    inner.operator("ASSIGN_VARIABLE", [handle, y], [])
    inner.output(y)
    result = main.tensor("result", "float32", (3,))
    main.operator("CALL", [x], [result], {"subgraph": 1})
    main.output(result)
    with pytest.raises(dovetail.UnsupportedModelError, match="written in a subgraph"):
        parse(model.build())


@pytest.mark.parametrize("operator", ["READ_VARIABLE", "ASSIGN_VARIABLE"])
def test_what_is_no_resource_is_refused(operator):
    model = making.Model()
    x, y = model.main.input("x", "float32", (3,)), model.main.tensor("y", "float32", (3,))
    model.main.operator(operator, [x, x], [y] if operator == "READ_VARIABLE" else [])
    model.main.output(x)
    with pytest.raises(dovetail.ModelError, match="no resource"):
        parse(model.build())


def test_other_operators_do_not_read_resources():
    model = making.Model()
    handle, y = model.main.tensor("handle", "resource", ()), model.main.tensor("y", "float32", (3,))
    model.main.operator("VAR_HANDLE", [], [handle], {"shared_name": "total"})
    model.main.operator("ABS", [handle], [y])
    model.main.output(y)
    with pytest.raises(dovetail.UnsupportedModelError, match="reads a resource"):
        parse(model.build())
