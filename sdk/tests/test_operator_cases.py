"""Modules of `operators`: many cases, the same for the same seed, that see one wrong element."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Network
from dovetail_sdk.conformance.catalogue import standard_operators
from dovetail_sdk.conformance.comparing import from_bfloat16, mismatch, to_bfloat16
from dovetail_sdk.conformance.trials import add_case
from dovetail_sdk.conformance.variants import variants

FEWEST = 5
"""Cases of a kind in an element type."""


def cases(operator, dtype):
    """All that the module makes of its own parameters, by label."""
    made = {v.label: operator.make(v.parameters, dtype, np.random.default_rng(1)) for v in variants(operator, dtype, ())}
    return {label: case for label, case in made.items() if case is not None}


def output_dtypes(case):
    """Element types of a case's outputs, as the graph infers them."""
    network = Network("case")
    return [slot.dtype for slot in add_case(network, case, "case")[1]]


def stored(expected, dtype):
    """The best result that a backend can give."""
    if dtype is DType.BFLOAT16 and expected.dtype != np.uint16:
        return to_bfloat16(expected)
    with np.errstate(over="ignore"):
        return np.array(expected, dtype.numpy)


def spoilt(result, tolerance, dtype):
    """The same with its middle element changed by far more than rounding."""
    wrong = np.array(result, order="C")
    flat = wrong.reshape(-1)
    at = flat.size // 2
    if dtype is DType.BOOL:
        flat[at] = not flat[at]
    elif dtype.is_float:
        value = float(from_bfloat16(flat[at : at + 1])[0]) if dtype is DType.BFLOAT16 else float(flat[at])
        moved = value * 1.25 + np.copysign(1.0, value) if np.isfinite(value) else 1.0
        flat[at] = to_bfloat16(np.asarray(moved)) if dtype is DType.BFLOAT16 else moved
    else:
        step = int(tolerance.absolute) + 2
        flat[at] = int(flat[at]) + (-step if int(flat[at]) > np.iinfo(flat.dtype).max // 2 else step)
    return wrong


@pytest.mark.parametrize("kind", standard_operators())
def test_a_perfect_result_passes_and_one_wrong_element_does_not(kind):
    operator = standard_operators()[kind]
    for dtype in operator.dtypes:
        made = cases(operator, dtype)
        assert len(made) >= FEWEST, dtype
        seen = 0
        for label, case in made.items():
            for expected, tolerance, result_dtype in zip(case.expected, case.tolerances, output_dtypes(case), strict=True):
                perfect = stored(expected, result_dtype)
                assert not mismatch(perfect, expected, tolerance, result_dtype), label
                assert tolerance.reason, label
                if perfect.size:
                    assert mismatch(spoilt(perfect, tolerance, result_dtype), expected, tolerance, result_dtype), label
                    seen += 1
        assert seen, dtype


@pytest.mark.parametrize("kind", standard_operators())
def test_the_same_seed_gives_the_same_case(kind):
    operator = standard_operators()[kind]
    dtype = operator.dtypes[0]
    first, second = cases(operator, dtype), cases(operator, dtype)
    assert list(first) == list(second)
    for label, case in first.items():
        for a, b in zip(case.feeds, second[label].feeds, strict=True):
            assert (a is None) == (b is None)
            assert a is None or b is None or a.value.tobytes() == b.value.tobytes()


@pytest.mark.parametrize("kind", standard_operators())
def test_cases_compute_in_the_dtype_that_was_asked_for(kind):
    operator = standard_operators()[kind]
    for dtype in operator.dtypes:
        for label, case in cases(operator, dtype).items():
            network = Network("case")
            add_case(network, case, "case")
            [layer] = [layer for layer in network.layers if layer.kind == kind]
            assert layer.descriptor.computes_in(layer.input_infos, layer.output_infos) is dtype, label
