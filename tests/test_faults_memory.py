"""Test faults 44 to 47 of docs/faults.md: memory that is not what was asked for."""

import ctypes
import threading

import numpy as np
import pytest
from faults.misbehaving import DOMAIN, Factory, FaultyBackend, Handle, Manager, Workload, X, add, load, run

from dovetail import BackendError, ErrorCode, MemoryDomain, Network, RunError
from dovetail.contract.interfaces import ITensorHandle
from dovetail.contract.memory import HostMemory


class Odd(ITensorHandle):
    """Memory that is not what was asked for; it notes if somebody wrote to it."""

    def __init__(self, nbytes, alignment, *, domain=DOMAIN, shift=0, less=0, address=None):
        self.block = HostMemory(nbytes + 256, alignment)
        ctypes.memset(self.block.address, 0xA5, nbytes + 256)
        self.domain, self.nbytes = domain, nbytes - less
        self._address = self.block.address + shift if address is None else address
        self.was_released = False

    @property
    def address(self):
        return self._address

    def release(self):
        self.was_released = True

    @property
    def untouched(self):
        return ctypes.string_at(self.block.address, self.block.nbytes) == b"\xa5" * self.block.nbytes


HANDLES = {
    "null": ({"address": 0}, "at address 0"),
    "misaligned": ({"shift": 8}, "is not a multiple of 64"),
    "too small": ({"less": 1}, "bytes, expected"),
    "negative": ({"address": -64}, "expected a pointer or handle of 64 bits"),
    "too wide": ({"address": 1 << 64}, "expected a pointer or handle of 64 bits"),
    "no number": ({"address": "0x1000"}, "expected a pointer or handle of 64 bits"),
    "of another memory": ({"domain": MemoryDomain("Faulty", 1, "private")}, "expected Faulty:0/private"),
}


@pytest.mark.fault(44)
@pytest.mark.parametrize("name", HANDLES)
def test_memory_that_no_tensor_can_lie_in_is_refused_before_it_is_written(runtime, neighbour, name):
    arguments, text = HANDLES[name]
    made = []

    class OddManager(Manager):
        def allocate(self, nbytes, alignment):
            made.append(Odd(nbytes, alignment, **arguments))
            return made[-1]

    class OddBackend(FaultyBackend):
        def create_memory_manager(self, context, domain):
            return OddManager(self.fault)

    net = load(runtime, OddBackend())
    for _ in range(2):
        with pytest.raises(BackendError, match=text) as caught:
            run(net)
        assert caught.value.code is ErrorCode.BACKEND_CONTRACT
        assert "Faulty" in str(caught.value)
    assert all(handle.untouched and handle.was_released for handle in made)
    assert len(made) == 2


@pytest.mark.fault(44)
@pytest.mark.parametrize("alignment", [0, -64, 3, "64", None])
def test_an_alignment_that_is_none_is_refused(runtime, neighbour, alignment):
    class OddManager(Manager):
        pass

    OddManager.alignment = alignment

    class OddBackend(FaultyBackend):
        def create_memory_manager(self, context, domain):
            return OddManager(self.fault)

    with pytest.raises(BackendError, match="alignment") as caught:
        load(runtime, OddBackend())
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


@pytest.mark.fault(46)
def test_constants_and_inputs_are_read_only_for_python_workloads(runtime, neighbour):
    seen = []

    class Writer(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)

            def write(inputs, outputs):
                add(inputs, outputs)
                for one in inputs:
                    seen.append(one.flags.writeable)
                    one[...] = 0

            factory.create_workload = lambda layer: Workload(self.fault, write)
            return factory

    weights = np.arange(12, dtype=np.float32)
    net = Network("weights")
    net.output(net.addition(net.input("x", (12,)), weights, name="second"), "y")
    loaded = runtime.load(net, optimize={"backends": [Writer()]})
    with pytest.raises(RunError, match="read-only"):
        loaded.run({"x": X})
    assert seen == [False]
    assert np.array_equal(weights, np.arange(12))


@pytest.mark.fault(47)
def test_every_allocation_is_released_once(runtime):
    counts = {}

    class Counting(Handle):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            counts[id(self)] = [self, 0]

        def release(self):
            counts[id(self)][1] += 1

    class CountingManager(Manager):
        def allocate(self, nbytes, alignment):
            return Counting(self.fault, nbytes, alignment)

    class CountingBackend(FaultyBackend):
        def create_memory_manager(self, context, domain):
            return CountingManager(self.fault)

    for _ in range(20):
        net = load(runtime, CountingBackend())
        binding = net.bind({"x": X})
        binding.run()
        threads = [threading.Thread(target=run, args=(net,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        net.unload()
    assert len(counts) >= 40
    assert {count for _, count in counts.values()} == {1}
