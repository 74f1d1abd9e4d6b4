"""Check PReLU of quantized tensors: CpuRef's bits, and those of whole numbers in Python."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DataLayout, DType, Network, Quantization, layers, load

from .quantized_arrays import whole

BYTES = [DType.INT8, DType.UINT8]
SCALES = [1e-30, 1e-9, 2**-16, 2**-9, 0.003, 0.25, 0.37, 0.5, 0.75, 1.0, 1.7, 2.0, 127.3, 128.0, 300.0, 511.0, 512.0, 1e5, 1e30]
SLOPES = [
    ((2, 5, 7), (1,)),
    ((2, 5, 7), (7,)),
    ((2, 5, 7), (5, 1)),
    ((2, 5, 7), (2, 5, 7)),
    ((1, 6, 5, 20), (20,)),
    ((0, 3), (3,)),
    ((3, 0), (1,)),
    *(((size,), (size,)) for size in (1, 15, 16, 17, 31, 63, 64, 65, 129)),
]


def least_of(dtype):
    return int(np.iinfo(dtype.numpy).min)


def every_pair(dtype):
    """Return elements and slopes [256, 256]: each byte beside each."""
    each = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    return [np.ascontiguousarray(one) for one in np.meshgrid(each, each)]


def described(x, slopes, schemes, *, is_constant=False, layout=None):
    """Return a network, and what to feed it."""
    net = Network("net")
    slot = net.input("x", x.shape, DType.of(x.dtype), schemes[0])
    if layout is not None:  # which brings it to images of bytes
        slot = net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=layout), slot).output
    feeds = {"x": x} if is_constant else {"x": x, "slopes": slopes}
    of_slopes = slopes.shape, DType.of(slopes.dtype), schemes[1]
    other = net.constant(slopes, quantization=schemes[1]) if is_constant else net.input("slopes", *of_slopes)
    net.output(net.add(layers.Prelu(), slot, other, quantization=schemes[2]).output, "y")
    return net, feeds


def computed(backend, x, slopes, schemes, *, isa=None, threads=1, **how):
    net, feeds = described(x, slopes, schemes, **how)
    options = {} if isa is None else {"options": {backend: {"isa": isa}}}
    with load(net, backends=[backend], oracle=False, threads=threads, **options) as loaded:
        return loaded.run(feeds)["y"]


def requantized(x, factor):
    """Multiply whole numbers as MultiplyByQuantizedMultiplier does, in Python's own integers."""
    fraction, shift = np.frexp(min(float(factor), 2.0**31 - 1))
    multiplier = int(np.floor(float(fraction) * 2**31 + 0.5))
    if multiplier == 2**31:
        multiplier, shift = multiplier // 2, shift + 1
    if shift < -31:
        return 0
    shift = int(shift)
    high = min(max(x * 2 ** max(shift, 0), -(2**31)), 2**31 - 1) * multiplier + 2**30 >> 31
    right = max(-shift, 0)
    if not right:
        return high
    half = 2 ** (right - 1)
    return high + half >> right if high >= 0 else -(-high + half >> right)


def wanted(x, slopes, schemes, dtype):
    """Return what TensorFlow Lite makes of each pair; its factors are of float32."""
    of_x, of_slopes, of_y = (np.float32(scheme.scale[0]) for scheme in schemes)
    zero_x, zero_slope, zero_y = (scheme.zero_point[0] for scheme in schemes)
    with np.errstate(over="ignore", under="ignore"):
        above, below = of_x / of_y, of_x * of_slopes / of_y
    known = {v: requantized(v, above) for v in range(256)}
    products = np.unique((x.astype(int) - zero_x) * (slopes.astype(int) - zero_slope))
    bent = {int(v): requantized(int(v), below) for v in products}
    pairs = zip((x.astype(int) - zero_x).flat, (slopes.astype(int) - zero_slope).flat, strict=True)
    values = [known[int(v)] if v >= 0 else bent[int(v * slope)] for v, slope in pairs]
    return np.clip(np.array(values, object) + zero_y, *dtype.limits).astype(dtype.numpy).reshape(x.shape)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", [0.04, 0.5])
@pytest.mark.parametrize("shapes", SLOPES, ids=str)
def test_prelu(kernels, shapes, scale, dtype):
    least = least_of(dtype)
    schemes = (
        Quantization.per_tensor(0.05, least + 120),
        Quantization.per_tensor(0.01, least + 100),
        Quantization.per_tensor(scale, least + 90),
    )
    rng = np.random.default_rng(len(str(shapes)))
    x, slopes = (whole(rng, dtype, *shape) for shape in shapes)
    reals = [s.scale[0] * (one.astype(np.float64) - s.zero_point[0]) for one, s in zip((x, slopes), schemes, strict=False)]
    real = np.clip(np.where(reals[0] < 0, reals[0] * reals[1], reals[0]) / scale + least + 90, least, least + 255)
    reference = computed("CpuRef", x, slopes, schemes)
    assert np.abs(reference - real).max(initial=0) <= 0.501
    for is_constant in (False, True):
        found = computed("CpuAcc", x, slopes, schemes, is_constant=is_constant, isa=kernels.name, threads=2)
        np.testing.assert_array_equal(found, reference)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", SCALES)
def test_every_pair_of_bytes_at_any_factor(kernels, scale, dtype):
    """Factors of elements, and of those below zero, shift up, or down, or not at all."""
    least, (x, slopes) = least_of(dtype), every_pair(dtype)
    for of_slopes, zeros in (
        (1.0, (128, 128, 128)),
        (0.0078125, (255, 0, 77)),
        (2.0**-14, (131, 125, 255)),
        (900.0, (255, 90, 0)),
    ):
        steps = (scale, of_slopes, 1.0)
        schemes = [Quantization.per_tensor(step, least + zero) for step, zero in zip(steps, zeros, strict=True)]
        reference = computed("CpuRef", x, slopes, schemes)
        np.testing.assert_array_equal(computed("CpuAcc", x, slopes, schemes, isa=kernels.name), reference)
        np.testing.assert_array_equal(wanted(x[::16], slopes[::16], schemes, dtype), reference[::16])


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", SCALES)
def test_a_constant_slope_for_all_is_a_table(scale, dtype):
    least, x = least_of(dtype), np.arange(256, dtype=np.uint8).view(dtype.numpy)
    schemes = [Quantization.per_tensor(step, least + zero) for step, zero in ((scale, 200), (0.02, 100), (1.0, 128))]
    for slope in (0, 100, 101, 255):
        slopes = np.full(1, least + slope, dtype.numpy)
        net, feeds = described(x, slopes, schemes, is_constant=True)
        with load(net, backends=["CpuAcc"], oracle=False, threads=1) as loaded:
            assert [step.layer_kind for step in loaded.plan.steps] == ["CpuAcc.MapQuantized"]
            found = loaded.run(feeds)["y"]
        np.testing.assert_array_equal(found, computed("CpuRef", x, slopes, schemes))


@pytest.mark.parametrize("layout", DataLayout)
def test_slopes_of_channels_of_an_image_shared_by_threads(kernels, layout):
    """Each thread begins among the repeated slopes where its part of the image does."""
    rng = np.random.default_rng(5)
    shape, own = ((3, 40, 61, 67), (40, 1, 1)) if layout is DataLayout.NCHW else ((3, 61, 67, 40), (40,))
    x, slopes = whole(rng, DType.INT8, *shape), whole(rng, DType.INT8, *own)
    schemes = [Quantization.per_tensor(step, zero) for step, zero in ((0.05, 5), (0.013, -7), (0.04, 9))]
    reference = computed("CpuRef", x, slopes, schemes)
    for threads in (1, 3):
        found = computed("CpuAcc", x, slopes, schemes, is_constant=True, isa=kernels.name, threads=threads, layout=layout)
        np.testing.assert_array_equal(found, reference)


def test_prelu_of_an_image_keeps_it_in_bytes():
    scheme = Quantization.per_tensor(0.1, 4)
    rng = np.random.default_rng(1)
    x, slopes = whole(rng, DType.INT8, 2, 20, 5, 6), whole(rng, DType.INT8, 20, 1, 1)
    window = layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(2, 2))
    results = []
    for backend in ("CpuAcc", "CpuRef"):
        net = Network("net")
        slope = net.constant(slopes, quantization=Quantization.per_tensor(0.01))
        pooled = net.add(window, net.input("x", x.shape, DType.INT8, scheme)).output
        made = net.add(layers.Prelu(), pooled, slope, quantization=scheme).output
        net.output(net.add(window, made).output, "y")
        with load(net, backends=[backend], threads=2) as loaded:
            results.append(loaded.run({"x": x})["y"])
    np.testing.assert_array_equal(*results)
