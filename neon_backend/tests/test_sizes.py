"""Check plans of a network for several sizes: shared packed weights, results as at fixed sizes."""

from __future__ import annotations

import gc
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets, precisions

BEST = next(name for name, here in instruction_sets().items() if here)
LUCK = np.random.default_rng(12)


def numbers(*shape):
    return LUCK.standard_normal(shape, np.float32) / 8


def convolutions(net, x):
    y = net.relu(net.convolution2d(x, numbers(32, 16, 3, 3), numbers(32), padding=1))
    return net.convolution2d(y, numbers(48, 32, 3, 3), numbers(48), padding=1)


def few_channels(net, x):
    few, _ = net.split(x, 2, 1, sizes=(3, 13))
    return net.convolution2d(few, numbers(32, 3, 3, 3), padding=1, stride=2)


def depthwise(net, x):
    y = net.relu(net.convolution2d(x, numbers(64, 16, 1, 1), numbers(64)))
    return net.convolution2d(y, numbers(64, 1, 3, 3), numbers(64), padding=1, groups=64)


def grouped(net, x):
    return net.convolution2d(x, numbers(24, 4, 3, 3), numbers(24), padding=1, groups=4)


def transposed(net, x):
    return net.transpose_convolution2d(x, numbers(16, 24, 4, 4), numbers(24), stride=2, padding=1)


def normalized(net, x):
    y = net.convolution2d(x, numbers(40, 16, 3, 3), padding=1)
    return net.batch_normalization(y, numbers(40), numbers(40), numbers(40), np.abs(numbers(40)) + 1)


def products(net, x):
    y = net.permute(x, (0, 2, 3, 1))
    return net.matmul(net.addition(net.matmul(y, numbers(16, 96)), numbers(96)), numbers(96, 40))


def quantized(net, x):
    scale = dovetail.Quantization((0.05,), (0,))
    weights = np.arange(-4608, 4608).astype(np.int8).reshape(64, 16, 3, 3)
    y = net.dequantize(net.quantize(x, scale), scale)
    y = net.dequantize(
        net.quantize(net.convolution2d(y, net.dequantize(net.constant(weights), scale), padding=1), scale), scale
    )
    w = net.dequantize(net.constant(weights[:, :1].copy()), scale)
    return net.dequantize(net.quantize(net.convolution2d(y, w, padding=1, groups=64), scale), scale)


BUILDS = [convolutions, few_channels, depthwise, grouped, transposed, normalized, products, quantized]
OPTIONS = {"rewritten": {}, "each by itself": {"passes": False}, "scalar": {"options": {"CpuAcc": {"isa": "scalar"}}}}
if "bfloat16" in precisions(BEST):
    OPTIONS["bfloat16"] = {"options": {"CpuAcc": {"precision": "bfloat16"}}}


def network(build):
    net = dovetail.Network(build.__name__)
    net.output(build(net, net.input("x", ("N", 16, "H", "W"))), "y")
    return net


def picture(batch, height, width):
    return np.random.default_rng(batch * 10000 + height * 100 + width).standard_normal((batch, 16, height, width), np.float32)


def packed(net):
    """Return the packed constants of a network."""
    (factory,) = net._maker.factories.values()
    return factory.workloads._kernels.constants


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_sizes_share_what_is_packed(build, options):
    model = network(build)
    sizes = [(1, 6, 6), (2, 6, 6), (3, 9, 7), (1, 20, 30), (5, 6, 6), (1, 4, 33)]
    with dovetail.load(model, backends=["CpuAcc"], threads=2, **options) as net:
        results, once = [], 0
        for size in sizes:
            results.append(net.run({"x": picture(*size)})["y"])
            assert packed(net).nbytes <= sum(planned.plan.memory.private_bytes for planned in net._plans)
            once = once or packed(net).nbytes
        assert once > 0
        # Images of other sizes may want another algorithm: weights of Winograd's are 16/9 or 4
        # times as large.
        assert packed(net).nbytes <= 8 * once
        again = packed(net).nbytes
        for batch in range(6, 12):
            results.append(net.run({"x": picture(batch, 6, 6)})["y"])
            sizes.append((batch, 6, 6))
        assert packed(net).nbytes == again  # whose algorithm the batch decides, was there
    for (batch, height, width), found in zip(sizes, results, strict=True):
        shapes = {"N": batch, "H": height, "W": width}
        with dovetail.load(model, backends=["CpuAcc"], threads=2, shapes=shapes, **options) as fixed:
            np.testing.assert_array_equal(fixed.run({"x": picture(batch, height, width)})["y"], found)


def test_batches_hold_the_weights_once():
    model = network(products)
    with dovetail.load(model, backends=["CpuAcc"], threads=2) as net:
        net.run({"x": picture(1, 5, 5)})
        once, blocks = packed(net).nbytes, len(packed(net))
        for batch in range(2, 65):
            net.run({"x": picture(batch, 5, 5)})
        assert (packed(net).nbytes, len(packed(net))) == (once, blocks)
        constants = packed(net)
    gc.collect()
    assert (constants.nbytes, len(constants)) == (0, 0)  # gone with the last plan


def test_networks_share_nothing():
    model = network(products)
    with dovetail.load(model, backends=["CpuAcc"]) as one, dovetail.load(model, backends=["CpuAcc"]) as other:
        for net in (one, other):
            net.run({"x": picture(1, 5, 5)})
        assert packed(one).nbytes == packed(other).nbytes > 0
        assert one.memory.private_bytes == other.memory.private_bytes


def test_dropped_plans_leave_the_weights_to_the_others():
    model = network(convolutions)
    with dovetail.load(model, backends=["CpuAcc"], threads=2, plan_cache_bytes=100_000) as net:
        luck = random.Random(3)
        results = {}
        for _ in range(60):
            batch = luck.randint(1, 9)
            found = net.run({"x": picture(batch, 6, 6)})["y"]
            np.testing.assert_array_equal(results.setdefault(batch, found), found)
        assert len(net._plans) < 9


def test_random_sizes_on_many_threads():
    model, expected = network(depthwise), {}
    with dovetail.load(model, backends=["CpuAcc"], threads=2) as net:
        for batch in range(1, 9):
            shapes = {"N": batch, "H": 6, "W": 6}
            with dovetail.load(model, backends=["CpuAcc"], threads=2, shapes=shapes) as fixed:
                expected[batch] = fixed.run({"x": picture(batch, 6, 6)})["y"]

        def work(seed):
            luck = random.Random(seed)
            for _ in range(100):
                batch = luck.randint(1, 8)
                np.testing.assert_array_equal(net.run({"x": picture(batch, 6, 6)})["y"], expected[batch])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert len(net._plans) == 8
