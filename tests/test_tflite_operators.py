"""The operators in tflite_parser/README.md: up to date, and told from models that are sound."""

import pytest
from tools import tflite_operators
from tools.tflite_calls import CALLS, HYBRID, TYPES
from tools.tflite_operators import PAGE, documentation, missing, newest, translated, word, written

from dovetail_tflite import parse


@pytest.fixture(scope="module")
def block():
    """What the tool writes: it runs a model for each cell."""
    return documentation()


@pytest.fixture(scope="module")
def rows(block):
    """Words of each operator, by the name in the table."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in block.splitlines() if line.startswith("| ")]
    return {name: words for name, *words in cells if len(words) == 2 + len(TYPES)}


def test_the_page_is_up_to_date(block):
    page = PAGE.read_text("utf-8")
    assert page == written(page, block), "run: python -m tools.tflite_operators"


def test_each_operator_has_a_call():
    assert set(CALLS) == set(translated())


@pytest.mark.parametrize("operator", translated())
def test_each_operator_is_computed_with_some_type(rows, operator):
    version, *words = rows[operator.removeprefix("custom:")]
    assert int(version) == newest(operator)
    assert {"Acc", "Ref"} & set(words), f"no type is computed: {words}"


@pytest.mark.parametrize(
    ("operator", "column", "expected"),
    [
        ("CONV_2D", "float32", "Acc"),
        ("CONV_2D", HYBRID, "Acc"),
        ("CONV_2D", "bool", "-"),
        ("LOGICAL_AND", "bool", "Ref"),
        ("LOGICAL_AND", "float32", "-"),
        ("LOCAL_RESPONSE_NORMALIZATION", "int8", "read"),
        ("ADD", HYBRID, ""),
    ],
)
def test_words(operator, column, expected):
    assert word(operator, newest(operator), column) == expected


def test_a_backend_that_refuses_a_layer_does_not_compute_it():
    """A network is not called CpuAcc's because CpuRef helps."""
    network = parse(tflite_operators.model_of("TOPK_V2", 3, "float32"))
    assert tflite_operators.computes("CpuRef", network)
    assert not tflite_operators.computes("CpuAcc", network)


def test_what_is_missing_is_refused_by_name():
    assert {"UNIQUE", "RFFT2D", "STABLEHLO_SORT"} <= set(missing())
    assert not {"ADD", "CUSTOM", "VAR_HANDLE", "STABLEHLO_COMPOSITE"} & set(missing())


def test_only_what_lies_between_the_markers_is_replaced():
    page = f"before {tflite_operators.BEGIN} old {tflite_operators.END} after"
    assert written(page, "new\n") == f"before {tflite_operators.BEGIN}\nnew\n{tflite_operators.END} after"
    with pytest.raises(ValueError, match="markers"):
        written("no markers", "new\n")
