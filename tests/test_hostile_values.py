"""Run with hostile values that become sizes, and without enough memory.

Each ends with a typed error, and the network goes on working.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from dovetail import DovetailError, ErrorCode, Limits, Network, PlacementError, Runtime
from dovetail import layers as kinds

BACKENDS = [["CpuRef"], ["CpuAcc", "CpuRef"]]
X = np.arange(6, dtype=np.float32).reshape(2, 3)
HOSTILE = (-1, -4, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))


def scalars(*numbers):
    return [np.asarray(number, np.int64) for number in numbers]


# By kind: what is built from x and the value, a value that works, what NumPy gives for it, and
# values that do not.
SHAPED = {
    "broadcast_to": (
        lambda net, x, value: net.broadcast_to(x, value),
        [1, 2, 3],
        lambda x: x[None],
        [[size, 2, 3] for size in HOSTILE] + [[-4, 3], [2, -3], [2, 3, 4], [1] * 65, [0, 2**40, 2**40, 2, 3]],
    ),
    "reshape": (
        lambda net, x, value: net.reshape(x, value),
        [3, 2],
        lambda x: x.reshape(3, 2),
        [[size, 2] for size in HOSTILE if size != -1] + [[-1, -1], [-3, -2], [2**32, 2**32, 6], [1] * 64 + [6]],
    ),
    "tile": (
        lambda net, x, value: net.tile(x, value),
        [2, 1],
        lambda x: np.tile(x, (2, 1)),
        [[size, 1] for size in HOSTILE] + [[1], [1, 1, 1], [2**31, 2**31]],
    ),
    "pad": (
        lambda net, x, value: net.add(kinds.Pad(), x, value).output,
        [1, 0, 0, 1],
        lambda x: np.pad(x, [(1, 0), (0, 1)]),
        [[size, 0, 0, 0] for size in HOSTILE if size != -1] + [[2**62, 0, -(2**62), 0], [-2, 0, -2, 0], [0, 0], [0] * 300],
    ),
    "slice": (
        lambda net, x, value: net.strided_slice(x, value, np.array([9, 9]), stride=np.array([2**63 - 1, -(2**63)])),
        [1, 1],
        lambda x: x[1:9:1000, 1:9:-1000],
        [[1], [1, 1, 1]],
    ),
    "range": (
        lambda net, x, value: net.range(np.int64(0), value, np.int64(1)),
        5,
        lambda x: np.arange(5),
        [2**40, 2**62, 2**63 - 1],
    ),
    "fill": (
        lambda net, x, value: net.fill(value, 2.0),
        [2, 2],
        lambda x: np.full((2, 2), 2, np.float32),
        [[size] for size in HOSTILE] + [[2**31, 2**31], [1] * 65, [0, 2**62]],
    ),
    "one_hot": (
        lambda net, x, value: net.one_hot(np.array([0, 1]), value, np.array([0, 1], np.float32)),
        3,
        lambda x: np.eye(3, dtype=np.float32)[:2],
        list(HOSTILE),
    ),
    "resize": (
        lambda net, x, value: net.resize(x, value, method="nearest"),
        [4, 6],
        lambda x: x.repeat(2, 0).repeat(2, 1),
        [[size, 3] for size in HOSTILE] + [[2], [2, 3, 4]],
    ),
    "expand_dims": (
        lambda net, x, value: net.expand_dims(x, value),
        [0],
        lambda x: x[None],
        [[size] for size in HOSTILE if size != -1] + [[0, 0], list(range(100))],
    ),
    "top_k": (lambda net, x, value: net.top_k(x, value)[0], [2], lambda x: x[:, :0:-1], [[size] for size in HOSTILE]),
    "split": (
        lambda net, x, value: net.split(x, 2, 1, sizes=value)[0],
        [1, 2],
        lambda x: x[:, :1],
        [[size, 3 - size] for size in HOSTILE[:-1]] + [[1], [1, 1, 1]],
    ),
    "trilu": (lambda net, x, value: net.trilu(x, value), 2**63 - 1, lambda x: x * 0, []),
}


@pytest.mark.parametrize("backends", BACKENDS, ids="+".join)
@pytest.mark.parametrize("name", SHAPED)
def test_values_that_shape_results(name, backends):
    build, good, expected, hostile = SHAPED[name]
    network = Network(name)
    value = network.input("value", np.shape(good), np.int64) if np.ndim(good) == 0 else network.input("value", ("n",), np.int64)
    made = build(network, network.input("x", (2, 3)), value)
    network.output(network.concat([made, made], -1), "y")
    with Runtime(threads=1) as runtime:
        net = runtime.load(network, optimize={"backends": backends, "limits": Limits(memory=1 << 28)})
        for bad in [*hostile, good]:
            feeds = {"x": X, "value": np.asarray(bad, np.int64)}
            if bad is good:
                assert np.array_equal(net.run(feeds)["y"], np.concatenate([expected(X)] * 2, -1))
                continue
            with pytest.raises(DovetailError) as caught:
                net.run(feeds)
            assert "raised" not in caught.value.message, "a kind did not refuse it, and something else failed"
            assert caught.value.code in (
                ErrorCode.SHAPE_MISMATCH,
                ErrorCode.ATTRIBUTE_INVALID,
                ErrorCode.LIMIT_EXCEEDED,
                ErrorCode.NO_BACKEND_FOR_LAYER,
            )


@pytest.mark.parametrize("backends", BACKENDS, ids="+".join)
@pytest.mark.parametrize(
    "build",
    [
        lambda net, x: net.local_response_normalization(x, 1000),
        lambda net, x: net.relu(net.addition(x, x)),
        lambda net, x: net.trilu(net.permute(x)),
        lambda net, x: net.pooling2d(x, "average", (1, 1000), padding=(0, 500)),
        lambda net, x: net.top_k(x, 2, axis=1)[0],
    ],
)
def test_the_sizes_beside_a_zero_are_not_walked(build, backends):
    network = Network("empty")
    shape = (1, 4, 0, 2**30) if build.__code__.co_names[0] == "top_k" else (1, 0, 8, 2**30)
    network.output(build(network, network.input("x", shape)), "y")
    with Runtime(threads=1) as runtime:
        net = runtime.load(network, optimize={"backends": backends})
        assert net.run({"x": np.empty(shape, np.float32)}, timeout=2)["y"].size == 0
        assert net.plan.steps == []


@pytest.mark.parametrize(
    ("build", "a", "b", "backend"),
    [
        (lambda net, a, b: net.addition(a, b), (1, 2) * 4, (2, 1) * 4, "CpuAcc"),
        (lambda net, a, b: net.addition(a, b), (1, 2) * 6, (2, 1) * 6, "CpuRef"),
        (lambda net, a, b: net.prelu(net.addition(a, b), b), (1, 2) * 6, (2, 1) * 6, "CpuRef"),
        (lambda net, a, b: net.addition(a, b), (2,) * 12, (1,) * 6 + (2,) * 6, "CpuAcc"),
        (lambda net, a, b: net.matmul(a, b), (1,) * 38 + (3, 4), (1,) * 38 + (4, 2), None),
    ],
)
def test_ranks_beyond_what_kernels_walk_go_to_another_backend(build, a, b, backend):
    """CpuAcc took them, and the load failed."""
    feeds = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in (("a", a), ("b", b))}
    network = Network("deep")
    network.output(build(network, network.input("a", a), network.input("b", b)), "y")
    with Runtime(threads=1) as runtime:
        try:
            net = runtime.load(network, optimize={"backends": ["CpuAcc", "CpuRef"]})
        except PlacementError:  # both said so
            assert backend is None
            return
        expected = feeds["a"] + feeds["b"] if backend else np.matmul(feeds["a"], feeds["b"])
        assert np.array_equal(net.run(feeds)["y"], expected)
        assert backend in (None, net.plan.steps[0].backend)


LACKING = """
    import resource
    import numpy as np
    from dovetail import DovetailError, Limits, Network, PlacementError, Runtime

    def several(network, x):
        for i in range(4):
            network.output(network.relu(x), f"y{i}")

    def in_between(network, x):
        network.output(network.mean(network.concat([network.relu(x), network.unary(x, "neg")] * 4)), "y")

    def loaded(build):
        network = Network(build.__name__)
        build(network, network.input("x", ("N",)))
        return runtime.load(network, optimize={"backends": ["CpuRef"], "limits": Limits(memory=1 << 50)})

    small = np.ones(4, np.float32)
    with Runtime(threads=1) as runtime:
        several, in_between = loaded(several), loaded(in_between)
        first = [net.run({"x": small}) for net in (several, in_between)]
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # of address space
        resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
        large = np.ones(1 << 25, np.float32)  # 128 MiB
        repeated = np.broadcast_to(large[:1], (1 << 27,))
        attempts = {
            "results": lambda: several.run({"x": large}),
            "copies of inputs": lambda: several.run({"x": repeated}),
            "arenas": lambda: in_between.run({"x": large}),
            "bound results": lambda: several.bind({"x": large}),
            "bound inputs": lambda: several.bind({"x": repeated}),
            "submitted": lambda: several.submit({"x": large}).result(),
        }
        for name, attempt in attempts.items():
            for again in range(2):
                try:
                    attempt()
                except DovetailError as error:
                    assert error.code == "OUT_OF_MEMORY", (name, error)
                    assert error.hint
                else:
                    raise AssertionError(f"{name}: there was enough")
                for net, expected in zip((several, in_between), first):
                    results = net.run({"x": small})
                    assert all(np.array_equal(expected[name], results[name]) for name in expected)
    print("survived")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and a limit of address space")
def test_lack_of_memory_has_its_code():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LACKING)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "survived"), done.stderr[-3000:]
