"""Products of halves on GPUs that compute in halves, with `fast_math`, and on those that do not."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_cl.devices import opened

rng = np.random.default_rng(13)


@pytest.fixture(params=[False, True], ids=["floats", "halves"])
def sums_halves(request, backend, monkeypatch):
    """Whether the device computes in halves."""
    facts = opened(0).facts
    monkeypatch.setitem(facts, "kind", "gpu")
    if request.param and "cl_khr_fp16" not in facts["extensions"].split():
        pytest.skip(f"{facts['name']} does not compute in halves")
    if not request.param:
        others = (one for one in facts["extensions"].split() if one != "cl_khr_fp16")
        monkeypatch.setitem(facts, "extensions", " ".join(others))
    return request.param


def run(build, feeds, **options):
    """Run a network on GpuAcc; returns its output, and the texts of what was built."""
    network = Network("halves")
    slots = [network.input(name, x.shape, DType.of(x.dtype)) for name, x in feeds.items()]
    network.output(build(network, *slots), name="y")
    before = set(opened(0).programs)
    with dovetail.load(network, ["GpuAcc"], options={"GpuAcc": options}) as net:
        return net.run(feeds)["y"].copy(), set(opened(0).programs) - before


def halves(*shape):
    return rng.standard_normal(shape).astype(np.float16)


def convolved(x, weights):
    """Convolve [N, C, H, W] with [F, C, h, w], padded by 1; and the same of magnitudes."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape[2:], (2, 3))
    both = ((windows, weights.astype(np.float64)), (np.abs(windows), np.abs(weights.astype(np.float64))))
    return [np.einsum("nchwij,fcij->nfhw", *one, optimize=True) for one in both]


def check(found, expected, magnitude, built, *, in_halves):
    """Compare, with a bound by eight roundings of sums, or those of float32, and the last."""
    bound = magnitude * (2.0**-8 if in_halves else 2.0**-20) + np.abs(expected) * 2.0**-11
    assert (np.abs(found - expected) <= bound).all()
    assert in_halves == any("cl_khr_fp16" in text for text in built) or not built


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("shape", "weights"), [((2, 3, 9, 7), (5, 3, 3, 3)), ((1, 64, 8, 8), (70, 64, 1, 1))])
def test_convolutions(sums_halves, layout, shape, weights):
    x, w = halves(*shape), halves(*weights)
    expected, magnitude = convolved(x, w)
    given = [one if layout == "NCHW" else np.ascontiguousarray(one.transpose(0, 2, 3, 1)) for one in (x, w)]

    def build(network, x):
        return network.convolution2d(x, given[1], padding=1, layout=layout)

    for fast_math in (True, False):
        y, built = run(build, {"x": given[0]}, fast_math=fast_math)
        y = y.astype(np.float64) if layout == "NCHW" else y.astype(np.float64).transpose(0, 3, 1, 2)
        check(y, expected, magnitude, built, in_halves=fast_math and sums_halves)


@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(200, 77, 300), (70, 33, 40), (5, 1000, 9), (3, 1, 2)])
def test_products(sums_halves, transposed, rows, depth, columns):
    a, b = halves(2, rows, depth), halves(2, depth, columns)
    real = [one.astype(np.float64) for one in (a, b)]
    given = [np.ascontiguousarray(one.swapaxes(1, 2)) if is_so else one for one, is_so in zip((a, b), transposed, strict=True)]

    def build(network, a, b):
        return network.matmul(a, b, transpose_a=transposed[0], transpose_b=transposed[1])

    y, built = run(build, dict(zip("ab", given, strict=True)), fast_math=True)
    expected, magnitude = real[0] @ real[1], np.abs(real[0]) @ np.abs(real[1])
    check(y.astype(np.float64), expected, magnitude, built, in_halves=sums_halves)


@pytest.mark.parametrize("large", [np.inf, -np.inf, np.nan, 60000.0])
def test_large_numbers(sums_halves, large):
    """Sums that halves do not hold are right where results are: 2 * large - 2 * large + large."""
    x = np.zeros((1, 8, 5, 5), np.float16)
    x[0, :5, 2, 2] = large
    x[0, 5:] = 1
    w = np.zeros((4, 8, 1, 1), np.float16)
    w[:, :6, 0, 0] = (2, 2, -2, -1, 0, 3)
    y, _ = run(lambda network, x: network.convolution2d(x, w), {"x": x}, fast_math=True)
    with np.errstate(all="ignore"):
        expected = np.einsum("nchw,fcij->nfhw", x.astype(np.float32), w.astype(np.float32))
    np.testing.assert_array_equal(y, expected.astype(np.float16))
    a = np.ascontiguousarray(x[0, :, :, 2].T)
    y, _ = run(lambda network, a, b: network.matmul(a, b), {"a": a, "b": w[:, :, 0, 0].T.copy()}, fast_math=True)
    np.testing.assert_array_equal(y.T, expected[0, :, :, 2].astype(np.float16))
