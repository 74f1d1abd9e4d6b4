"""Arrays of the host: where a device shares its memory, in place; else through pinned memory."""

import mmap

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_cl import devices
from dovetail_cl.devices import all_facts

SHAPE = (3, 5, 7)


def random(seed, shape=SHAPE):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.fixture
def shared(backend):
    """The backend, where its first device shares the host's memory."""
    if not all_facts()[0]["is_unified"]:
        pytest.skip("the first device has memory of its own")
    return backend


def mixed():
    """A network with a layer in its middle for another backend, and two outputs, one read again."""
    net = Network("mixed")
    x = net.input("x", SHAPE)
    first = net.relu(x, name="first")
    second = net.addition(first, x, name="elsewhere")
    third = net.multiplication(second, first, name="third")
    net.output(third, "y")
    net.output(net.sigmoid(net.permute(third, (2, 0, 1))), "z")
    return net


def load(backend, network, *forbidden):
    return dovetail.load(network, [backend, "CpuRef"], forbid=dict.fromkeys(forbidden, "GpuAcc"))


def check(net, x):
    found = net.run({"x": x})
    y = (np.maximum(x, 0) + x) * np.maximum(x, 0)
    np.testing.assert_allclose(found["y"], y, rtol=1e-6)
    np.testing.assert_allclose(found["z"], 1 / (1 + np.exp(-y.transpose(2, 0, 1))), rtol=1e-5)


def test_parts_on_device_and_host_need_no_copy(shared):
    with load(shared, mixed(), "elsewhere") as net:
        assert {row.name: row.backend for row in net.placement.layers}["elsewhere"] == "CpuRef"
        assert not net.placement.copies
        for seed in range(3):
            check(net, random(seed))


@pytest.mark.parametrize("elements", [0, 1, 3, 1021])
def test_arrays_lie_anywhere(shared, elements):
    """At any multiple of the element, read-only ones too, and in the last bytes of a page."""
    with load(shared, mixed()) as net:
        memory = np.empty(elements + random(0).size, np.float32)
        x = memory[elements:].reshape(SHAPE)
        x[...] = random(elements)
        x.flags.writeable = False
        check(net, x)
        pages = mmap.mmap(-1, mmap.PAGESIZE)
        last = np.frombuffer(pages, np.float32)[-x.size :].reshape(SHAPE)
        last[...] = x
        check(net, last)


def test_an_address_may_be_of_another_array_in_the_next_run(shared):
    with load(shared, mixed()) as net:
        for seed in range(8):
            pages = mmap.mmap(-1, 16 * mmap.PAGESIZE)
            x = np.frombuffer(pages, np.float32, random(0).size, 64).reshape(SHAPE)
            x[...] = random(seed)
            check(net, x)
            del x
            pages.close()


def test_bound_arrays_change_between_runs(shared):
    x = random(1)
    y = np.full(SHAPE, np.nan, np.float32)
    with load(shared, mixed(), "elsewhere") as net:
        binding = net.bind({"x": x}, {"y": y})
        for seed in range(3):
            x[...] = random(seed)
            binding.run()
            np.testing.assert_allclose(y, (np.maximum(x, 0) + x) * np.maximum(x, 0), rtol=1e-6)
            y[...] = np.nan
        binding.close()


def test_one_array_is_several_inputs(shared):
    net = Network("square")
    a, b = net.input("a", (64,)), net.input("b", (64,))
    net.output(net.multiplication(a, b), "y")
    x = random(3, (80,))
    with load(shared, net) as loaded:
        np.testing.assert_array_equal(loaded.run({"a": x[:64], "b": x[:64]})["y"], x[:64] ** 2)
        np.testing.assert_array_equal(loaded.run({"a": x[:64], "b": x[16:]})["y"], x[:64] * x[16:])


def test_joined_images_are_written_in_place(shared):
    """Images of channels first in a batch of one: producers write straight into their part."""
    net = Network("joined")
    x = net.input("x", (1, 4, 4, 4))
    parts = [net.relu(x, name="left"), net.sigmoid(x, name="right")]
    net.output(net.permute(net.concat(parts, axis=1, name="both"), (0, 1, 3, 2)), "y")
    with load(shared, net) as loaded:
        given = random(4, (1, 4, 4, 4))
        assert "both" not in [step.name for step in loaded.plan.steps]
        found = loaded.run({"x": given})["y"].transpose(0, 1, 3, 2)
        np.testing.assert_array_equal(found[:, :4], np.maximum(given, 0))
        np.testing.assert_allclose(found[:, 4:], 1 / (1 + np.exp(-given)), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_])
def test_every_type_is_moved_where_it_lies(shared, dtype):
    net = Network("moved")
    x = net.input("x", (3, 11), DType.of(np.dtype(dtype)))
    net.output(net.permute(x, (1, 0)), "y")
    given = np.random.default_rng(0).integers(0, 2, 34).astype(dtype)[1:].reshape(3, 11)
    with load(shared, net) as loaded:
        np.testing.assert_array_equal(loaded.run({"x": given})["y"], given.T)


@pytest.fixture
def own(backend, monkeypatch):
    """The backend, with a device of memory of its own and chunks of a page."""
    for fact, value in (("is_unified", False), ("chunk", 4096), ("staged_from", 1024)):
        monkeypatch.setitem(all_facts()[0], fact, value)
    monkeypatch.setattr(devices, "_open", {})
    return backend


@pytest.mark.parametrize("elements", [0, 1, 255, 256, 1023, 1024, 1025, 2048, 5000])
def test_transfers_in_chunks_are_whole(own, elements):
    net = Network("chunks")
    x = net.input("x", (elements,))
    net.output(net.relu(x), "y")
    net.output(net.sigmoid(x), "z")
    with load(own, net) as loaded:
        assert {(copy.backend, copy.mapped) for copy in loaded.placement.copies} == {("GpuAcc", False)}
        for seed in range(3):
            given = random(seed, (elements,))
            found = loaded.run({"x": given})
            np.testing.assert_array_equal(found["y"], np.maximum(given, 0))
            np.testing.assert_allclose(found["z"], 1 / (1 + np.exp(-given)), rtol=1e-5)


@pytest.mark.parametrize(("elements", "pinned"), [(200, 800), (1024, 2 * 4096), (3000, 4 * 4096)])
def test_memory_that_copies_pin_is_counted(own, elements, pinned):
    """Of one run: nothing for what goes along with a command, two chunks at most for the others."""
    net = Network("pinned")
    net.output(net.relu(net.input("x", (elements,))), "y")
    with load(own, net) as loaded:
        assert loaded.memory.private_bytes == pinned


def test_copies_of_both_backends_meet(own):
    with load(own, mixed(), "elsewhere") as net:
        for seed in range(3):
            check(net, random(seed))
        x = random(9)
        binding = net.bind({"x": x})
        for seed in range(3):
            x[...] = random(seed)
            np.testing.assert_allclose(binding.run()["y"], (np.maximum(x, 0) + x) * np.maximum(x, 0), rtol=1e-6)
        binding.close()
