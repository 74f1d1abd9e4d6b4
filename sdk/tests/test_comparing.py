"""How results are compared with what is expected."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType
from dovetail_sdk.conformance.cases import EXACT, Tolerance
from dovetail_sdk.conformance.comparing import mismatch


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.is_integer and dtype.is_signed])
def test_wrong_integers_of_the_other_sign_are_told_in_every_rank(dtype, shape):
    got, expected = np.full(shape, 1, dtype.numpy), np.full(shape, -1, dtype.numpy)
    assert "got 1, expected -1" in mismatch(got, expected, EXACT, dtype)
    assert not mismatch(got, expected, Tolerance(0.0, 2.0, "two"), dtype)
    assert mismatch(got, expected, Tolerance(0.0, 1.0, "one"), dtype)


def test_the_distance_of_the_extremes_of_64_bits_does_not_wrap():
    limits = np.iinfo(np.int64)
    got, expected = np.asarray(limits.max), np.asarray(limits.min)
    assert mismatch(got, expected, Tolerance(0.0, 1e19, "less than 2^64 - 1"), DType.INT64)
