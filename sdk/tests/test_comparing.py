"""How results are compared with what is expected."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, TensorInfo
from dovetail_sdk.conformance.cases import EXACT, Tolerance
from dovetail_sdk.conformance.comparing import mismatch
from dovetail_sdk.conformance.evaluation import Estimate, complaint


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


@pytest.mark.parametrize(("dtype", "bits"), [(DType.FLOAT32, np.uint32(0x7F800001)), (DType.FLOAT16, np.uint16(0x7C01))])
def test_what_nobody_wrote_is_wrong_without_a_warning(dtype, bits):
    """A NaN that signals, of which NumPy warns where it is widened."""
    got = np.array([bits, 0]).astype(bits.dtype).view(dtype.numpy)
    assert "1 of 2 elements are wrong, worst at [0]: got nan" in mismatch(got, np.zeros(2), Tolerance(0.1, 0, "some"), dtype)
    assert "is nan" in complaint(got, Estimate.exact(np.zeros(2)), TensorInfo((2,), dtype))
