"""Attention against NumPy in float64, with the kernels of CPUs and those of GPUs."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_cl.devices import opened

FUSED = "GpuAcc.Attention"


def sample(shape, dtype=np.float32, seed=5):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def run(backend, build, **arrays):
    """Run a network; returns its output and the kinds of its steps."""
    network = Network("attention")
    slots = [network.input(name, array.shape, DType.of(array.dtype)) for name, array in arrays.items()]
    network.output(build(network, *slots), name="y")
    with dovetail.load(network, [backend]) as net:
        return net.run(arrays)["y"].copy(), [step.kind for step in net.placement.layers]


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def check(found, expected, values):
    close = 4e-6 if found.dtype == np.float32 else 2e-3
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * abs(values.astype(np.float64)).max())


def check_kinds(kinds, rows):
    """Attention is one step; on a GPU that of one row is not."""
    assert (kinds == [FUSED]) is (rows > 1 or opened(0).facts["kind"] == "cpu")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("batch", "rows", "keys", "depth", "width"),
    [
        ((2, 3), 5, 7, 3, 3),
        ((2,), 33, 65, 40, 17),
        ((), 1, 50, 64, 64),
        ((1, 2), 70, 600, 32, 33),
        ((1, 1), 3, 300, 256, 250),
        ((3, 1), 13, 1, 1, 1),
    ],
)
def test_sizes(way, batch, rows, keys, depth, width, dtype):
    q, k, v = (sample((*batch, *size), dtype) for size in ((rows, depth), (depth, keys), (keys, width)))

    def build(net, q, k, v):
        return net.matmul(net.softmax(net.matmul(q, k)), v)

    q = (q / depth**0.5).astype(dtype)
    found, kinds = run(way, build, q=q, k=k, v=v)
    check_kinds(kinds, rows)
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    check(found, softmax(q @ k) @ v, v)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("rows", "keys", "depth", "width"), [(1, 5, 3, 3), (3, 513, 33, 50), (2, 256, 256, 255), (1, 300, 64, 1)]
)
def test_few_rows(way, rows, keys, depth, width, dtype):
    """Few rows, of keys whose elements are neighbours, some of them masked."""
    q, k, v = (sample((2, 2, *size), dtype) for size in ((rows, depth), (keys, depth), (keys, width)))
    q = (q / depth**0.5).astype(dtype)
    mask = np.where(np.arange(keys) % 3 == 1, -np.inf, sample((2, 1, rows, keys))).astype(dtype)
    mask[1, 0, -1] = -np.inf

    def build(net, q, k, v, mask):
        return net.matmul(net.softmax(net.addition(net.matmul(q, k, transpose_b=True), mask)), v)

    found, kinds = run(way, build, q=q, k=k, v=v, mask=mask)
    check_kinds(kinds, rows)
    q, k, v, mask = (one.astype(np.float64) for one in (q, k, v, mask))
    with np.errstate(invalid="ignore"):
        check(found, softmax(q @ k.swapaxes(-1, -2) + mask) @ v, v)


@pytest.mark.parametrize("mask_sizes", [(2, 1, 1, 37), (37,), (9, 1), (2, 3, 9, 37), (3, 9, 37), (1,)])
def test_heads_scale_and_masks(way, mask_sizes):
    x = [sample((2, rows, 3 * 16), seed=seed) for seed, rows in ((1, 9), (2, 37), (3, 37))]
    mask = sample(mask_sizes)

    def build(net, q, k, v, mask):
        q, k, v = (net.reshape(one, (2, -1, 3, 16)) for one in (q, k, v))
        scores = net.matmul(net.permute(q, (0, 2, 1, 3)), net.permute(k, (0, 2, 3, 1)))
        scores = net.addition(net.division(scores, np.float32([4])), mask)
        y = net.matmul(net.softmax(scores), net.permute(v, (0, 2, 1, 3)))
        return net.reshape(net.permute(y, (0, 2, 1, 3)), (2, 9, 48))

    found, kinds = run(way, build, q=x[0], k=x[1], v=x[2], mask=mask)
    assert kinds == [FUSED]
    q, k, v = (one.astype(np.float64).reshape(2, -1, 3, 16).transpose(0, 2, 1, 3) for one in x)
    expected = softmax(q @ k.swapaxes(-1, -2) / 4 + mask) @ v
    check(found, expected.transpose(0, 2, 1, 3).reshape(2, 9, 48), v)


@pytest.mark.parametrize("keys", [20, 900])
def test_masked_rows(way, keys):
    q, k, v = sample((2, 6, 8)), sample((2, keys, 8)), sample((2, keys, 8), seed=6)
    mask = np.zeros((2, 6, keys), np.float32)
    mask[0, :, keys // 2 :] = -np.inf
    mask[1, :, : -keys // 3] = -np.inf  # whole blocks, the first ones
    mask[1, 4] = -np.inf
    mask[0, 3, 1] = np.nan
    mask[0, 5, 2] = np.inf

    def build(net, q, k, v, mask):
        return net.matmul(net.softmax(net.addition(net.matmul(q, k, transpose_b=True), mask)), v)

    found, kinds = run(way, build, q=q, k=k, v=v, mask=mask)
    assert kinds == [FUSED]
    with np.errstate(invalid="ignore"):
        q, k, v = (one.astype(np.float64) for one in (q, k, v))
        expected = softmax(q @ k.swapaxes(-1, -2) + mask) @ v
    assert all(np.isnan(expected[row]).all() for row in ((1, 4), (0, 3), (0, 5)))
    check(found, expected, v)


@pytest.mark.parametrize(("rows", "sizes"), [(9, (9, 37)), (1, (2, 1, 1, 37)), (9, (2, 3, 9, 37)), (5, (5, 1))])
def test_masks_of_truth(way, rows, sizes):
    """As GPT-2 has it: where the mask is false, a large negative number takes the score's place."""
    q, k, v = sample((2, 3, rows, 8)), sample((2, 3, 37, 8)), sample((2, 3, 37, 8), seed=6)
    mask = sample(sizes) > -0.3

    def build(net, q, k, v, mask):
        scores = net.where(mask, net.matmul(q, k, transpose_b=True), np.float32(-1e9))
        return net.matmul(net.softmax(scores), v)

    found, kinds = run(way, build, q=q, k=k, v=v, mask=mask)
    check_kinds(kinds, rows)
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    check(found, softmax(np.where(mask, q @ k.swapaxes(-1, -2), -1e9)) @ v, v)


def test_large_scores(way):
    q, k, v = 40 * sample((1, 8, 16)), 40 * sample((1, 700, 16)), sample((1, 700, 16), seed=6)

    def build(net, q, k, v):
        return net.matmul(net.softmax(net.matmul(q, k, transpose_b=True)), v)

    found, _ = run(way, build, q=q, k=k, v=v)
    q, k, v = (one.astype(np.float64) for one in (q, k, v))
    np.testing.assert_allclose(found, softmax(q @ k.swapaxes(-1, -2)) @ v, rtol=1e-3, atol=1e-3)


def test_heads_in_the_batch_and_one_query_source(way):
    """As PyTorch's MultiheadAttention has it: rows outermost, and keys that others have too."""
    x = sample((11, 2, 24))

    def build(net, x):
        y = net.permute(net.reshape(x, (11, 6, 8)), (1, 0, 2))
        y = net.matmul(net.softmax(net.matmul(y, net.permute(y, (0, 2, 1)))), y)
        return net.reshape(net.permute(y, (1, 0, 2)), (22, 24))

    found, kinds = run(way, build, x=x)
    assert kinds == [FUSED]
    y = x.astype(np.float64).reshape(11, 6, 8).transpose(1, 0, 2)
    check(found, (softmax(y @ y.swapaxes(-1, -2)) @ y).transpose(1, 0, 2).reshape(22, 24), y)


def unfused(way, build, **arrays):
    found, kinds = run(way, build, **arrays)
    assert FUSED not in kinds
    return found


def test_what_else_is_read_stays(way):
    q, k, v = sample((4, 8)), sample((6, 8)), sample((6, 8), seed=6)

    def build(net, q, k, v):
        weights = net.softmax(net.matmul(q, k, transpose_b=True))
        net.output(weights, name="weights")
        return net.matmul(weights, v)

    found = unfused(way, build, q=q, k=k, v=v)
    check(found, softmax(q.astype(np.float64) @ k.T) @ v, v)


def test_a_softmax_along_another_axis_stays(way):
    q, k, v = sample((2, 4, 8)), sample((2, 6, 8)), sample((2, 6, 8), seed=6)

    def build(net, q, k, v):
        return net.matmul(net.softmax(net.matmul(q, k, transpose_b=True), axis=1), v)

    found = unfused(way, build, q=q, k=k, v=v)
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2)
    check(found, softmax(scores.swapaxes(-1, -2)).swapaxes(-1, -2) @ v, v)


def test_shared_keys_and_a_long_head_stay_right(way):
    """Matrices that are broadcast have steps of 0; rows of more than 256 elements are not fused."""
    q, k, v = sample((2, 4, 5, 8)), sample((1, 6, 8)), sample((2, 1, 6, 8))

    def build(net, q, k, v):
        return net.matmul(net.softmax(net.matmul(q, k, transpose_b=True)), v)

    found, _ = run(way, build, q=q, k=k, v=v)
    check(found, softmax(q.astype(np.float64) @ k.swapaxes(-1, -2)) @ v, v)
    q = k = v = sample((7, 300))
    found = unfused(way, build, q=q / 20, k=k, v=v)
    check(found, softmax(q.astype(np.float64) / 20 @ k.T) @ v, v)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("crosses", "biased", "kinds"),
    [
        (False, True, ["GpuAcc.Merged", FUSED]),
        (False, False, ["GpuAcc.Merged", FUSED]),
        (True, True, ["GpuAcc.Fused", "GpuAcc.Merged", FUSED]),
    ],
)
def test_products_that_give_q_k_and_v_are_one(way, crosses, biased, kinds, dtype):
    """With keys and values of another tensor q is alone."""
    x, memory = sample((2, 7, 20), dtype), sample((2, 11, 20), dtype)
    weights = [sample((20, 3 * size), dtype, seed=size) / 8 for size in (8, 8, 5)]
    bias = [sample((3 * size,), dtype, seed=9) for size in (8, 8, 5)]

    def build(net, x, memory=None):
        made = []
        for at, (right, added) in enumerate(zip(weights, bias, strict=True)):
            y = net.matmul(memory if crosses and at else x, right)
            y = net.addition(added, y) if biased else y
            made.append(net.permute(net.reshape(y, (2, -1, 3, right.shape[1] // 3)), (0, 2, 1, 3)))
        q, k, v = made
        y = net.matmul(net.softmax(net.matmul(q, k, transpose_b=True)), v)
        return net.reshape(net.permute(y, (0, 2, 1, 3)), (2, 7, 15))

    found, steps = run(way, build, x=x, **({"memory": memory} if crosses else {}))
    assert sorted(steps) == sorted(kinds)
    made = []
    for at, (right, added) in enumerate(zip(weights, bias, strict=True)):
        y = (memory if crosses and at else x).astype(np.float64) @ right + (added if biased else 0)
        made.append(y.reshape(2, -1, 3, right.shape[1] // 3).transpose(0, 2, 1, 3))
    q, k, v = made
    expected = (softmax(q @ k.swapaxes(-1, -2)) @ v).transpose(0, 2, 1, 3).reshape(2, 7, 15)
    close = 1e-5 if dtype is np.float32 else 1e-2
    np.testing.assert_allclose(found, expected, rtol=close, atol=close)


@pytest.mark.parametrize(("width", "room"), [(4, 1 << 20), (8, 1 << 20), (16, 1 << 16), (16, 1 << 12)])
@pytest.mark.parametrize("turned", [False, True])
def test_narrow_vectors_and_little_local_memory(backend, monkeypatch, width, room, turned):
    """Elements of a row of k are neighbours, or those of its columns are."""
    facts = opened(0).facts
    monkeypatch.setitem(facts, "vector_width", min(width, facts["vector_width"]))
    monkeypatch.setitem(facts, "local_memory", min(room, facts["local_memory"]))
    q, k, v = sample((3, 29, 40)) / 6, sample((3, 90, 40)), sample((3, 90, 21))

    def build(net, q, k, v):
        return net.matmul(net.softmax(net.matmul(q, k, transpose_b=not turned)), v)

    found, kinds = run(backend, build, q=q, k=np.ascontiguousarray(k.swapaxes(1, 2)) if turned else k, v=v)
    assert kinds == [FUSED]
    check(found, softmax(q.astype(np.float64) @ k.swapaxes(-1, -2)) @ v, v)
