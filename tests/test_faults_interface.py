"""Test faults 39 to 60 of docs/faults.md: misbehaviour by interface is an error naming it."""

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from dovetail import (
    BackendError,
    BackendId,
    Capabilities,
    Device,
    DovetailError,
    ErrorCode,
    MemoryDomain,
    Network,
    NoOptions,
    PlacementError,
    RunError,
    Runtime,
    Support,
)
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.memory import HostMemory
from dovetail.contract.subgraph import OptimizationViews

DOMAIN = MemoryDomain("Faulty", 0, "private")
X = np.linspace(-2, 2, 12, dtype=np.float32)
RIGHT = np.maximum(2 * np.maximum(X, 0), 0)


class Sly(BaseException):
    """No Exception: a careless `except Exception` lets it through."""


class Unprintable(Exception):
    """Cannot be put into a message."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


RAISED = {
    "ValueError": lambda: ValueError("on purpose"),
    "MemoryError": lambda: MemoryError("on purpose"),
    "SystemExit": lambda: SystemExit(3),
    "BaseException": lambda: Sly("on purpose"),
    "unprintable": Unprintable,
}
ANSWERED = {"None": None, "object": object(), "number": 7}


class Fault:
    """What goes wrong, and where."""

    def __init__(self, method="", fault=""):
        self.method, self.fault, self.raised = method, fault, []

    def __call__(self, method, honest):
        """Do what the honest method would do, unless this is where the fault is."""
        if method != self.method:
            return honest()
        if self.fault in RAISED:
            self.raised.append(method)
            raise RAISED[self.fault]()
        return ANSWERED[self.fault]


class Handle(ITensorHandle):
    released = 0

    def __init__(self, fault, nbytes, alignment):
        self.fault, self.memory = fault, HostMemory(nbytes, alignment)
        self.domain, self.nbytes = DOMAIN, nbytes

    @property
    def address(self):
        return self.fault("address", lambda: self.memory.address)

    def release(self):
        type(self).released += 1
        self.fault("release", self.memory.release)


class Manager(IMemoryManager):
    domain = DOMAIN

    def __init__(self, fault):
        self.fault = fault

    def allocate(self, nbytes, alignment):
        return self.fault("allocate", lambda: Handle(self.fault, nbytes, alignment))


ALIVE = weakref.WeakSet()


class Workload:
    def __init__(self, fault, function):
        self.fault, self.function = fault, function
        ALIVE.add(self)

    def execute(self, inputs, outputs):
        self.fault("execute", lambda: self.function(inputs, outputs))


class CapsuleWorkload(Workload):
    def __dovetail_workload__(self):
        return self.fault("__dovetail_workload__", lambda: None)


def relu(inputs, outputs):
    np.maximum(inputs[0], 0, out=outputs[0])


def add(inputs, outputs):
    np.add(inputs[0], inputs[1], out=outputs[0])


def copy(inputs, outputs):
    outputs[0][...] = inputs[0]


class Factory(IWorkloadFactory):
    def __init__(self, fault):
        self.fault = fault

    def create_workload(self, layer):
        kind = CapsuleWorkload if self.fault.method == "__dovetail_workload__" else Workload
        function = add if layer.kind.endswith("ElementwiseBinary") else relu
        return self.fault("create_workload", lambda: kind(self.fault, function))

    def create_copy(self, source, target, info):
        return self.fault("create_copy", lambda: Workload(Fault(), copy))


class Context(IBackendContext):
    def __init__(self, fault):
        self.fault, self.told = fault, []

    def _tell(self, name):
        self.told.append(name)
        self.fault(name, lambda: None)

    def before_load(self, network):
        self._tell("before_load")

    def after_load(self, network, error):
        self._tell("after_load")

    def before_unload(self, network):
        self._tell("before_unload")

    def after_unload(self, network):
        self._tell("after_unload")

    def close(self):
        self._tell("close")


class FaultyBackend(IBackend):
    """Runs ReLU and addition in memory of its own; one method misbehaves."""

    def __init__(self, method="", fault=""):
        self.fault = Fault(method, fault)
        self.contexts = []

    @property
    def id(self):
        return self.fault("id", lambda: BackendId("Faulty"))

    @property
    def options_type(self):
        return self.fault("options_type", lambda: NoOptions)

    @property
    def kind_versions(self):
        return self.fault("kind_versions", dict)

    def supports(self, layer, options, device):
        return self.fault("supports", Support.yes)

    def create_workload_factory(self, context, resources, options):
        return self.fault("create_workload_factory", lambda: Factory(self.fault))

    def create_context(self, device, resources, options):
        def honest():
            self.contexts.append(Context(self.fault))
            return self.contexts[-1]

        return self.fault("create_context", honest)

    def memory_domains(self, device):
        return self.fault("memory_domains", lambda: (DOMAIN,))

    def importable_domains(self, device):
        return self.fault("importable_domains", frozenset)

    def create_memory_manager(self, context, domain):
        return self.fault("create_memory_manager", lambda: Manager(self.fault))

    def optimize_subgraph(self, view, options, device):
        def honest():
            views = OptimizationViews(view)
            views.untouched(view)
            return views

        return self.fault("optimize_subgraph", honest)

    def capabilities(self):
        return self.fault("capabilities", Capabilities)

    def devices(self):
        return self.fault("devices", lambda: (Device(0, "one"),))


def network(name="net"):
    net = Network(name)
    first = net.relu(net.input("x", (12,)), name="first")
    net.output(net.relu(net.addition(first, first, name="second"), name="third"), "y")
    return net


def load(runtime, backend, **arguments):
    arguments = {"passes": True, **arguments}
    if backend.fault.method == "capabilities":
        arguments["reduce_float"] = "float16"
    return runtime.load(network(), optimize={"backends": [backend], **arguments})


def run(net):
    return net.run({"x": X})["y"]


def held():
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.fixture
def runtime():
    with Runtime(threads=2) as made:
        yield made


@pytest.fixture
def neighbour(runtime):
    """Another network of the same runtime: it must give the same bits before and after."""
    net = load(runtime, FaultyBackend())
    before = run(net)
    np.testing.assert_array_equal(before, RIGHT)
    resources = held()
    yield net
    assert run(net).tobytes() == before.tobytes()
    np.testing.assert_array_equal(run(load(runtime, FaultyBackend())), RIGHT)
    assert all(now <= then for now, then in zip(held(), resources, strict=True))


def everything(backend, runtime):
    """Load and run; returns the error that told of the fault."""
    with pytest.raises(DovetailError) as caught:
        run(load(runtime, backend))
    return caught.value


METHODS_OF_LOADING = (
    "id", "options_type", "kind_versions", "supports", "create_workload_factory", "create_context", "memory_domains",
    "importable_domains", "create_memory_manager", "optimize_subgraph", "capabilities", "devices", "create_workload",
    "create_copy", "__dovetail_workload__",
)  # fmt: skip
METHODS_OF_RUNNING = ("allocate", "address", "execute")
HOOKS = ("before_load", "after_load", "before_unload", "after_unload", "close", "release")


@pytest.mark.fault(39)
@pytest.mark.parametrize("fault", RAISED)
@pytest.mark.parametrize("method", METHODS_OF_LOADING + METHODS_OF_RUNNING)
def test_whatever_a_method_raises_is_an_error_that_names_it(runtime, neighbour, method, fault):
    loaded = runtime.networks
    backend = FaultyBackend(method, fault)
    error = everything(backend, runtime)
    assert backend.fault.raised, "the fault was never reached"
    told = str(error)
    assert "Faulty" in told
    assert (method in told) or (method == "execute" and "first" in told) or (method == "address" and "allocate" in told)
    expected = {ErrorCode.BACKEND_CONTRACT, ErrorCode.BACKEND_BROKEN, ErrorCode.BACKEND_UNAVAILABLE}
    expected |= {ErrorCode.NO_BACKEND_FOR_LAYER} if method in ("supports", "optimize_subgraph") else set()
    expected |= {ErrorCode.STEP_FAILED} if method == "execute" else set()
    expected |= {ErrorCode.OUT_OF_MEMORY} if fault == "MemoryError" else set()
    assert error.code in expected
    if method not in ("supports", "optimize_subgraph"):  # these cost the layer: the error is that nobody else takes it
        assert type(error.__cause__).__name__ in told or fault == "MemoryError"
    # All of what was loaded is gone again, but for what failed in a run.
    backend_told = [name for context in backend.contexts for name in context.told]
    assert backend_told.count("before_load") == backend_told.count("after_load")
    del error, loaded
    gc.collect()
    if method in METHODS_OF_LOADING:
        assert not [net for net in runtime.networks if net is not neighbour]


@pytest.mark.fault(39)
@pytest.mark.parametrize("fault", RAISED)
def test_queues_that_raise_are_named(hard, runtime, fault):
    class Queueless(hard.TestDevice):
        def queues(self, context):
            raise RAISED[fault]()

    with pytest.raises(BackendError, match=r"queues\(\)") as caught:
        runtime.load(network(), optimize={"backends": [Queueless()]})
    assert caught.value.code in (ErrorCode.BACKEND_CONTRACT, ErrorCode.OUT_OF_MEMORY)


@pytest.mark.fault(39)
def test_a_backend_that_raises_may_be_passed_over_only_with_a_word(runtime, neighbour):
    class Second(FaultyBackend):
        @property
        def id(self):
            return BackendId("Second")

    for method in ("supports", "optimize_subgraph"):
        backend = FaultyBackend(method, "SystemExit")
        net = runtime.load(network(), optimize={"backends": [backend, Second()]})
        np.testing.assert_array_equal(run(net), RIGHT)
        assert net.placement.fallbacks == net.placement.layers
        assert all("SystemExit" in row.refusals[0].reason for row in net.placement.fallbacks)
        net.unload()
    with pytest.raises(BackendError, match="SystemExit") as caught:
        runtime.load(network(), optimize={"backends": [FaultyBackend("optimize_subgraph", "SystemExit")], "fallback": False})
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


@pytest.mark.fault(39)
def test_ctrl_c_is_no_fault_of_a_backend(runtime):
    class Interrupted(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(runtime, Interrupted())


@pytest.mark.fault(40)
@pytest.mark.parametrize("fault", RAISED)
@pytest.mark.parametrize("method", HOOKS)
def test_a_hook_that_raises_is_reported_and_the_rest_goes_on(caplog, method, fault):
    backend = FaultyBackend(method, fault)
    Handle.released = 0
    with caplog.at_level(logging.ERROR, "dovetail"):
        with Runtime(threads=1) as runtime:
            net = load(runtime, backend)
            np.testing.assert_array_equal(run(net), RIGHT)
            np.testing.assert_array_equal(run(net), RIGHT)
            net.unload()
        assert backend.contexts[0].told == ["before_load", "after_load", "before_unload", "after_unload", "close"]
    assert Handle.released == 1
    assert len(backend.fault.raised) == 1
    reports = [record for record in caplog.records if method in record.getMessage()]
    assert len(reports) == 1
    del net
    gc.collect()
    assert not ALIVE


@pytest.mark.fault(41)
@pytest.mark.parametrize("answer", ANSWERED)
@pytest.mark.parametrize("method", [*METHODS_OF_LOADING, "allocate", "address"])
def test_a_wrong_answer_is_a_breach_of_contract(runtime, neighbour, method, answer):
    if answer == "None" and method in ("create_context", "create_memory_manager"):
        pytest.skip("None is an answer here")
    if method in ("id", "address") and answer == "number":
        pytest.skip("see below" if method == "id" else "a number is an address: see the test of handles")
    backend = FaultyBackend(method, answer)
    error = everything(backend, runtime)
    told = str(error)
    assert method in told or method == "address"
    assert "Faulty" in told
    if method == "supports":
        assert all(refusal.code == "contract" for refusal in error.details["refusals"]["first"])
    else:
        expected = ErrorCode.NO_BACKEND_FOR_LAYER if method == "optimize_subgraph" else ErrorCode.BACKEND_CONTRACT
        assert error.code in (expected, ErrorCode.BACKEND_ID_INVALID)


@pytest.mark.fault(42)
def test_a_layer_that_was_accepted_and_then_refused_is_named(runtime, neighbour):
    class Refuses(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)

            def create_workload(layer):
                if layer.name == "second":
                    raise NotImplementedError("no additions on Sundays")
                return Workload(self.fault, relu)

            factory.create_workload = create_workload
            return factory

    with pytest.raises(BackendError, match=r"layer 'second' .*no additions on Sundays") as caught:
        load(runtime, Refuses())
    assert "supports()" in caught.value.hint


@pytest.mark.fault(43)
def test_the_first_answer_is_held(runtime, neighbour):
    class Wavering(FaultyBackend):
        def __init__(self):
            super().__init__()
            self.asked = {}

        def supports(self, layer, options, device):
            self.asked[layer.name] = self.asked.get(layer.name, 0) + 1
            return Support.yes() if self.asked[layer.name] == 1 else Support.no("mood", "not any more")

    backend = Wavering()
    net = load(runtime, backend, passes=False)
    np.testing.assert_array_equal(run(net), RIGHT)
    assert [row.backend for row in net.placement.layers] == ["Faulty"] * 3


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


def _private(network, view, kind=None):
    """A replacement of a whole view by one ReLU per output."""
    made = [network.input(f"in{i}", slot.shape) for i, slot in enumerate(view.inputs)]
    for i, _ in enumerate(view.outputs):
        network.output(network.relu(made[0], name=f"private{i}"), f"out{i}")
    return network


def lost_output(view):
    views, replacement = OptimizationViews(view), Network("lost")
    replacement.input("in0", view.inputs[0].shape)
    views.substitute(view, replacement)
    return views


def other_shape(view):
    views, replacement = OptimizationViews(view), Network("shape")
    replacement.output(replacement.reshape(replacement.input("in0", view.inputs[0].shape), (3, 4)), "out0")
    views.substitute(view, replacement)
    return views


def cycle(view):
    views, replacement = OptimizationViews(view), Network("cycle")
    first = replacement.relu(replacement.input("in0", view.inputs[0].shape), name="one").layer
    second = replacement.relu(first.output, name="two").layer
    replacement.output(second.output, "out0")
    replacement.disconnect(first.inputs[0])
    replacement.connect(second.output, first.inputs[0])
    views.substitute(view, replacement)
    return views


def dangling(view):
    views, replacement = OptimizationViews(view), Network("dangling")
    layer = replacement.relu(replacement.input("in0", view.inputs[0].shape), name="one").layer
    replacement.output(layer.output, "out0")
    replacement.disconnect(layer.inputs[0])
    views.substitute(view, replacement)
    return views


def nothing_said(view):
    return OptimizationViews(view)


def said_twice(view):
    views = OptimizationViews(view)
    views.untouched(view)
    views.untouched(view)
    return views


@pytest.mark.fault(48)
@pytest.mark.parametrize("answer", [lost_output, other_shape, cycle, dangling, nothing_said, said_twice])
def test_an_unsound_substitution_is_refused_and_the_network_unharmed(runtime, neighbour, answer):
    class Optimizing(FaultyBackend):
        def optimize_subgraph(self, view, options, device):
            return answer(view)

    net = network()
    before = [(layer.name, [slot.source and slot.source.name for slot in layer.inputs]) for layer in net]
    with pytest.raises(BackendError) as caught:
        runtime.load(net, optimize={"backends": [Optimizing()], "fallback": False})
    assert caught.value.code is ErrorCode.SUBSTITUTION_INVALID
    assert "Faulty" in str(caught.value)
    with pytest.raises(PlacementError, match=r"Faulty: \[failed\] optimize_subgraph\(\)"):
        runtime.load(net, optimize={"backends": [Optimizing()]})
    assert [(layer.name, [slot.source and slot.source.name for slot in layer.inputs]) for layer in net] == before
    np.testing.assert_array_equal(run(runtime.load(net, optimize={"backends": [FaultyBackend()]})), RIGHT)


@pytest.mark.fault(48)
def test_a_private_layer_that_cannot_be_made_is_named(runtime, neighbour):
    class Optimizing(FaultyBackend):
        def optimize_subgraph(self, view, options, device):
            views = OptimizationViews(view)
            views.substitute(view, _private(Network("private"), view))
            return views

        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)
            factory.create_workload = lambda layer: {}[layer.name]
            return factory

    with pytest.raises(BackendError, match=r"'private0'.*create_workload\(\) raised KeyError"):
        load(runtime, Optimizing())


@pytest.mark.fault(50)
@pytest.mark.parametrize("fault", RAISED)
def test_a_workload_that_raises_fails_the_run_alone(runtime, neighbour, fault):
    backend = FaultyBackend("execute", fault)
    net = load(runtime, backend)
    for _ in range(2):
        with pytest.raises(RunError) as caught:
            run(net)
        assert caught.value.code is ErrorCode.STEP_FAILED
        assert caught.value.details["layer"] == "first"
        assert "Faulty" in str(caught.value)
        assert caught.value.__cause__ is not None
    backend.fault.method = ""
    np.testing.assert_array_equal(run(net), RIGHT)


@pytest.mark.fault(59)
def test_running_oneself_from_a_workload_ends(hard, runtime):
    """The device is held while a run is on: without a word this would wait for ever."""
    nets, errors = [], []

    def again(inputs):
        try:
            nets[0].run({"x": X})
        except RunError as error:
            errors.append(error)
        return inputs[0]

    net = Network("again")
    parallel = net.add(hard.Parallel(mode="alone", concurrency=2), net.input("x", (12,)), name="alone").output
    net.output(net.add(hard.Call(function="again"), parallel, name="calls").output, "y")
    nets.append(runtime.load(net, optimize={"backends": [hard.PythonBackend(again=again), hard.ParallelBackend()]}))
    nets[0].run({"x": X}, timeout=20)
    assert len(errors) == 1
    assert errors[0].code is ErrorCode.BACKEND_CONTRACT
    assert "from inside a run" in str(errors[0])
    nets[0].run({"x": X}, timeout=20)


@pytest.mark.fault(59)
def test_a_binding_that_runs_itself_ends(hard, runtime):
    bindings, errors = [], []

    def again(inputs):
        try:
            bindings[0].run()
        except RunError as error:
            errors.append(error)
        return inputs[0]

    net = Network("binding")
    net.output(net.add(hard.Call(function="again"), net.input("x", (12,)), name="calls").output, "y")
    loaded = runtime.load(net, optimize={"backends": [hard.PythonBackend(again=again)]})
    bindings.append(loaded.bind({"x": X}))
    bindings[0].run()
    assert [error.code for error in errors] == [ErrorCode.BACKEND_CONTRACT]


@pytest.mark.fault(59)
def test_running_while_planning_ends(runtime):
    nets = []

    class Eager(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            if nets:
                nets[0].run({"x": X})
            return super().create_workload_factory(context, resources, options)

    net = Network("eager")
    net.output(net.relu(net.input("x", ("N",)), name="first"), "y")
    nets.append(runtime.load(net, optimize={"backends": [Eager()]}))
    with pytest.raises(RunError, match=r"create_workload_factory|from inside a run") as caught:
        nets[0].run({"x": X}, timeout=20)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


@pytest.mark.fault(59)
def test_a_runtime_is_not_closed_from_inside(hard):
    errors = []
    with Runtime(threads=1) as runtime:

        def close(inputs):
            try:
                runtime.close()
            except RunError as error:
                errors.append(error)
            return inputs[0]

        net = Network("close")
        net.output(net.add(hard.Call(function="close"), net.input("x", (12,)), name="calls").output, "y")
        loaded = runtime.load(net, optimize={"backends": [hard.PythonBackend(close=close)]})
        loaded.run({"x": X}, timeout=20)
        assert len(errors) == 1
        loaded.run({"x": X}, timeout=20)


@pytest.mark.fault(59)
def test_loading_from_inside_a_method_works(runtime, neighbour):
    class Nested(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            np.testing.assert_array_equal(run(load(runtime, FaultyBackend())), RIGHT)
            return super().create_workload_factory(context, resources, options)

    np.testing.assert_array_equal(run(load(runtime, Nested())), RIGHT)


# -- what only a process of its own survives -------------------------------------------------------

CHILD = """
import faulthandler, sys
sys.path.insert(0, {here!r})
import importlib.util
spec = importlib.util.spec_from_file_location("faults", {file!r})
faults = importlib.util.module_from_spec(spec)
spec.loader.exec_module(faults)
faulthandler.enable()
faults.misbehave({what!r})
"""


def misbehave(what):
    """Run a network whose workload does what no process survives; called in a child."""

    def body(inputs, outputs):
        relu(inputs, outputs)
        if what == "segfault":
            ctypes.string_at(0)
        elif what == "abort":
            os.abort()
        elif what == "division":
            os.kill(os.getpid(), signal.SIGFPE)
        elif what == "exit":
            os._exit(3)
        elif what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "loop":
            time.sleep(3600)
        elif what == "loop with the GIL":
            ctypes.PyDLL(None).sleep(3600)
        elif what == "folder":
            os.chdir("/")
            os.umask(0)

    class Misbehaving(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)
            factory.create_workload = lambda layer: Workload(self.fault, body if layer.name == "second" else relu)
            return factory

        def optimize_subgraph(self, view, options, device):
            if what == "optimizer":
                time.sleep(3600)
            return super().optimize_subgraph(view, options, device)

    faulthandler.dump_traceback_later(3)
    runtime = Runtime(threads=2)
    net = load(runtime, Misbehaving())
    print("loaded", flush=True)
    try:
        net.run({"x": X}, timeout=0.3)
        print("ran in", os.getcwd(), flush=True)
    except RunError as error:
        print(error.code, flush=True)


def child(what, seconds=60):
    program = CHILD.format(here=os.path.dirname(__file__), file=__file__, what=what)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("what", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT), ("division", signal.SIGFPE)]
)
def test_a_crash_in_a_workload_ends_the_process_and_faulthandler_says_where(what, number):
    done = child(what)
    assert done.returncode == -number
    assert done.stdout.split() == ["loaded"]
    assert "Fatal Python error" in done.stderr
    assert "in execute" in done.stderr, "the frame of the workload"
    assert "in body" in done.stderr


@pytest.mark.fault(54)
@pytest.mark.parametrize(("what", "code"), [("exit", 3), ("kill", -signal.SIGKILL)])
def test_a_workload_that_ends_the_process_ends_it(what, code):
    done = child(what)
    assert done.returncode == code
    assert done.stdout.split() == ["loaded"]


@pytest.mark.fault(55)
def test_a_changed_folder_stays_changed():
    done = child("folder")
    assert done.returncode == 0
    assert "ran in /" in done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "frame"),
    [
        pytest.param("optimizer", "in optimize_subgraph", marks=pytest.mark.fault(49)),
        pytest.param("loop", "in body", marks=pytest.mark.fault(52)),
        pytest.param("loop with the GIL", "in body", marks=pytest.mark.fault(53)),
    ],
)
def test_what_does_not_end_is_ended_from_outside_and_the_dump_says_where(what, frame):
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        child(what, 6)
    told = (caught.value.stderr or b"").decode()
    assert "Timeout (0:00:03)!" in told
    assert frame in told
