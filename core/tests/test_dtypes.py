"""Element types where NumPy is given one."""

import sys

import numpy as np
import pytest

from dovetail import DType, GraphError

NUMPYS = [dtype for dtype in DType if dtype is not DType.BFLOAT16]


@pytest.mark.parametrize("dtype", NUMPYS)
def test_numpy_takes_an_element_type(dtype):
    assert np.dtype(dtype) == np.dtype(dtype.label)
    assert np.zeros((2, 3), dtype).dtype == dtype.label
    assert np.ones(3, "f4").astype(dtype).dtype == dtype.label
    assert np.dtype(dtype.label) == dtype
    assert np.dtype("complex64") != dtype


def test_bfloat16_is_rounded_rather_than_counted():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    made = np.array([1.5, -3.0], "f4").astype(DType.BFLOAT16)
    assert made.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(made.astype("f4"), [1.5, -3.0])


def test_bfloat16_without_ml_dtypes_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(GraphError, match="NumPy has no bfloat16") as caught:
        np.zeros(2, DType.BFLOAT16)
    assert "ml_dtypes" in caught.value.hint
