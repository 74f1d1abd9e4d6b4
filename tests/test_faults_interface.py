"""Test faults 39 to 43 and 50 of docs/faults.md: methods that raise or answer wrongly."""

import gc
import logging

import numpy as np
import pytest
from faults.misbehaving import (
    ALIVE,
    ANSWERED,
    RAISED,
    RIGHT,
    Factory,
    FaultyBackend,
    Handle,
    Workload,
    load,
    network,
    relu,
    run,
)

from dovetail import BackendError, BackendId, DovetailError, ErrorCode, RunError, Runtime, Support


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
