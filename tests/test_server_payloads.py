"""What the example server reads from bodies, and what it writes into them."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from server_modules import WHY, module_of_server

import dovetail

pytest.importorskip("fastapi", reason=WHY)
Image = pytest.importorskip("PIL.Image", reason=WHY)

NPZ = "application/x-npz"
RANDOM = np.random.default_rng(11)

payloads = module_of_server("payloads")


@pytest.mark.parametrize("numbers", ["[9223372036854775808.0]", "[9223372036854775808, -1]", "[1e19]", "[-1e19]"])
def test_integers_in_json_do_not_wrap(payloads, numbers):
    spec = SimpleNamespace(name="x", dtype=dovetail.DType.INT64)
    with pytest.raises(payloads.Problem, match="not all of its numbers"):
        payloads.from_json(f'{{"inputs": {{"x": {numbers}}}}}'.encode(), [spec])


def test_the_outermost_integers_are_taken_from_json(payloads):
    spec = SimpleNamespace(name="x", dtype=dovetail.DType.INT64)
    (x,) = payloads.from_json(b'{"inputs": {"x": [-9223372036854775808, 9223372036854775807]}}', [spec]).values()
    assert x.tolist() == [-(2**63), 2**63 - 1]


@pytest.mark.parametrize(
    ("dtype", "numbers", "wanted"),
    [
        ("INT64", "[9007199254740993, 1.0]", [2**53 + 1, 1]),
        ("INT64", "[[-9007199254740993], [1e0]]", [[-(2**53) - 1], [1]]),
        ("INT64", "[9223372036854775807, 0.0]", [2**63 - 1, 0]),
        ("INT64", "[-9223372036854775808, 0.0, true]", [-(2**63), 0, 1]),
        ("INT64", "[1e18, 9007199254740993]", [10**18, 2**53 + 1]),
        ("INT64", "[9223372036854775808, -1]", None),
        ("INT64", "[9223372036854775807, 0.5]", None),
        ("INT64", "[9007199254740993, NaN]", None),
        ("INT64", "[9007199254740993, Infinity]", None),
        ("UINT64", "[18446744073709551615, 0.0]", [2**64 - 1, 0]),
        ("UINT64", "[18446744073709551615, -1]", None),
        ("UINT64", "[1.8446744073709552e19]", None),
        ("INT8", "[127, -128.0]", [127, -128]),
        ("INT8", "[128.0]", None),
    ],
)
def test_a_fraction_takes_no_bit_of_the_integers_beside_it(payloads, dtype, numbers, wanted):
    spec = SimpleNamespace(name="x", dtype=dovetail.DType[dtype])
    body = f'{{"inputs": {{"x": {numbers}}}}}'.encode()
    if wanted is None:
        with pytest.raises(payloads.Problem, match=r"not all of its numbers|infinity"):
            payloads.from_json(body, [spec])
    else:
        (x,) = payloads.from_json(body, [spec]).values()
        assert x.dtype == spec.dtype.numpy
        assert x.tolist() == wanted


def test_halves_and_integers_have_scales_of_their_own(payloads):
    png = io.BytesIO()
    Image.new("L", (8, 8), 255).save(png, "png")

    def read(dtype, scale):
        spec = SimpleNamespace(name="x", dtype=dovetail.DType[dtype], shape=(1, 1, 8, 8))
        (x,) = payloads.picture(png.getvalue(), SimpleNamespace(inputs=[spec]), None, [scale]).values()
        return x

    assert (read("FLOAT16", 256.0) == 65280).all()
    with pytest.raises(payloads.Problem, match="more than the type float16"):
        read("FLOAT16", 258.0)
    assert (read("UINT8", 258.0) == 255).all()  # they saturate
    with pytest.raises(payloads.Problem, match="more than the type uint8"):
        read("UINT8", 1e37)


def test_no_picture_is_handed_to_another_program(payloads, monkeypatch):
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: pytest.fail("Ghostscript is asked"))
    spec = SimpleNamespace(name="x", dtype=dovetail.DType.FLOAT32, shape=(1, 1, 8, 8))
    file = io.BytesIO()
    Image.new("L", (8, 8)).save(file, "EPS")
    with pytest.raises(payloads.Problem, match="cannot identify"):
        payloads.picture(file.getvalue(), SimpleNamespace(inputs=[spec]), None, None)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", "<f8", "|u1", "|i1", "<i2", ">i8", "<u4", "|b1", "<c8"])
def test_arrays_are_encoded_as_numpy_does_it(payloads, dtype):
    arrays = [
        (RANDOM.integers(0, 90, shape) + 0.5).astype(dtype) for shape in ((), (0,), (1,), (3, 0, 2), (7, 5), (1, 3, 4, 9))
    ]
    for array in arrays:
        file = io.BytesIO()
        np.save(file, array)
        assert payloads.to_npy(array) == file.getvalue()
    for array in (arrays[-1].T, arrays[-1][..., ::2], np.asfortranarray(arrays[-2])):
        found = np.load(io.BytesIO(payloads.to_npy(array)))
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    named = dict(zip("abc", arrays[3:], strict=True))
    with np.load(io.BytesIO(payloads.encoded(named, NPZ).body)) as found:
        assert list(found) == list(named)
        for name, array in named.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
