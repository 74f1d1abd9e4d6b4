"""What groups make of lines across subgroups, where the driver has them, and without."""

import numpy as np
import pytest

from dovetail_cl.devices import opened

rng = np.random.default_rng(11)
LENGTHS = (1, 33, 64, 65, 1000)


@pytest.fixture
def on_gpu(backend, monkeypatch):
    """The backend with the kernels of GPUs."""
    monkeypatch.setitem(opened(0).facts, "kind", "gpu")
    return backend


@pytest.fixture
def both(on_gpu, run, monkeypatch):
    """A function that returns the results of a network across subgroups, and without."""
    device = opened(0)
    if not device.facts["subgroup_language"]:
        pytest.skip(f"the compiler of {device.facts['name']} has no subgroups")

    def results(build, *inputs):
        before = set(device.programs)
        across = run(on_gpu, build, *inputs)
        taken = [text for text in set(device.programs) - before if "#define SUBGROUPS 1\n" in text]
        with monkeypatch.context() as patch:
            patch.setitem(device.facts, "subgroup_language", "")
            without = run(on_gpu, build, *inputs)
        return across, without, taken

    return results


@pytest.mark.parametrize("function", ["max", "min", "sum", "mean", "prod", "log_sum_exp"])
def test_reduce(both, function):
    """Extremes are the same, sums but for their order; a NaN anywhere is the result."""
    for length in LENGTHS:
        x = rng.standard_normal((3, length)).astype(np.float32)
        x[1, rng.integers(length)] = np.nan
        (across,), (without,), _ = both(lambda net, x: net.reduce(x, function, (1,)), x)
        assert np.isnan(across[1])
        np.testing.assert_allclose(across, without, rtol=2e-6 if function not in ("max", "min") else 0, atol=2e-7)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("function", ["max", "min", "sum"])
def test_integers(both, function, dtype):
    x = rng.integers(-(1 << 20), 1 << 20, (3, 1000)).astype(dtype)
    (across,), (without,), _ = both(lambda net, x: net.reduce(x, function, (1,)), x)
    np.testing.assert_array_equal(across, without)


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("last", [False, True])
def test_equal_extremes(both, function, last):
    """Of many that are equal the first counts, or the last; NaN is ahead of all."""
    for length in LENGTHS:
        x = rng.integers(0, 3, (5, length)).astype(np.float32)
        x[0] = -np.inf
        x[1, length // 2 :] = np.nan
        (across,), (without,), _ = both(lambda net, x: net.arg_min_max(x, function, 1, select_last=last), x)
        np.testing.assert_array_equal(across, without)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_softmax_and_norms(both, dtype):
    """They take subgroups; large numbers do, too, whose squares overflow."""
    tolerance = 2e-6 if dtype == np.float32 else 2e-3
    layers = (
        lambda net, x: net.softmax(x),
        lambda net, x: net.layer_normalization(x, np.ones(37, np.float32)),
        lambda net, x: net.lp_normalization(x),
        lambda net, x: net.instance_normalization(x, np.ones(3, np.float32), np.zeros(3, np.float32)),
    )
    for layer in layers:
        x = rng.standard_normal((2, 3, 20, 37)).astype(dtype)
        x[1] *= 1e4
        (across,), (without,), taken = both(layer, x)
        assert taken
        np.testing.assert_allclose(across.astype(np.float32), without.astype(np.float32), rtol=tolerance, atol=tolerance)


def test_none(on_gpu, run, monkeypatch):
    """A device without them gets the programs of OpenCL C 1.2."""
    monkeypatch.setitem(opened(0).facts, "subgroup_language", "")
    before = set(opened(0).programs)
    x = rng.standard_normal((2, 77)).astype(np.float32)
    (y,) = run(on_gpu, lambda net, x: net.softmax(x), x)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
    assert not any("#define SUBGROUPS 1\n" in text for text in set(opened(0).programs) - before)
