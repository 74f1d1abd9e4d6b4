"""Test an asynchronous device with own memory: waits, lifetimes, late errors, hangs, leftovers."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dovetail import (
    HOST,
    BackendError,
    BackendUnavailableError,
    Choices,
    ErrorCode,
    Network,
    OptionError,
    RunError,
    Runtime,
    RunTimeoutError,
)
from dovetail.discovery.registry import Registry
from dovetail.runtime import memory_plan
from dovetail.runtime.plan_builder import PlanBuilder
from dovetail_sdk.conformance.checks import all_checks
from dovetail_sdk.conformance.results import Status
from dovetail_sdk.conformance.runner import run_check
from dovetail_sdk.conformance.subject import Settings
from dovetail_sdk.conformance.target import Target
from dovetail_sdk.tuning import tune

SLOW = {"delay_us": 20_000}
SIZE = (8, 16)


def load(runtime, network, backends, **options):
    return runtime.load(network, optimize={"backends": list(backends), "options": {"TestDevice": options}})


def numbers(seed=0, shape=SIZE):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def relu(x):
    return np.maximum(x, 0)


WEIGHTS = numbers(5, (16, 16)) / 4


def mixed_network(hard):
    """Two parts on the device with a Python layer between them, a reshape, and three outputs."""
    net = Network("mixed")
    x = net.input("x", SIZE)
    first = net.relu(net.addition(x, net.relu(x, name="a"), name="b"), name="c")
    flat = net.reshape(first, (4, 32), name="flat")
    dense = net.fully_connected(net.reshape(flat, SIZE, name="back"), WEIGHTS, name="dense")
    host = net.add(hard.Call(function="negate"), dense, name="host").output
    last = net.addition(net.relu(host, name="d"), first, name="e")
    for name, slot in (("last", last), ("dense_out", dense), ("first", first)):
        net.output(slot, name)
    return net


def mixed_answer(x):
    first = relu(x + relu(x))
    dense = first @ WEIGHTS.T
    return {"last": relu(-dense) + first, "dense_out": dense, "first": first}


def assert_answer(results, x):
    for name, expected in mixed_answer(x).items():
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)


def python(hard, **functions):
    return hard.PythonBackend(negate=lambda inputs: -inputs[0], **functions)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("claim", ["none", "layers", "whole"])
def test_answers_are_right(hard, device, runtime, claim, passes):
    options = {"claim": claim, "delay_us": 200, "seed": 3}
    net = runtime.load(
        mixed_network(hard),
        optimize={"backends": [device, python(hard)], "options": {"TestDevice": options}, "passes": passes},
    )
    first = net.run({"x": numbers()})
    for _ in range(20):
        results = net.run({"x": numbers()})
        assert all(np.array_equal(results[name], first[name]) for name in first)
    assert_answer(first, numbers())


def test_whole_and_layers_are_claimed(hard, device, runtime):
    kinds = {}
    for claim in ("layers", "whole"):
        net = load(runtime, mixed_network(hard), [device, python(hard)], claim=claim)
        kinds[claim] = {step.layer_kind for step in net.plan.steps}
    assert {"hard.Block", "hard.Blocked", "hard.Unblock"} <= kinds["layers"]
    assert "hard.Program" not in kinds["layers"]
    assert "hard.Blocked" not in kinds["whole"]


def test_a_program_is_one_step_that_covers_its_layers(hard, device, runtime):
    net = Network("chain")
    x = net.input("x", SIZE)
    net.output(net.relu(net.addition(x, net.relu(x, name="a"), name="b"), name="c"), "y")
    loaded = load(runtime, net, [device], claim="whole")
    assert np.array_equal(loaded(numbers()), relu(numbers() + relu(numbers())))
    program = next(step for step in loaded.plan.steps if step.layer_kind == "hard.Program")
    assert set(program.sources) == {"a", "b", "c"}


def test_one_wait_where_tensors_leave_the_device(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)])
    kinds = [step.layer_kind for step in net.plan.steps]
    assert kinds.count("dovetail.Wait") == 2
    assert kinds[-1] == "dovetail.Wait"
    net.run({"x": numbers()})
    copies = [step for step in net.plan.steps if step.layer_kind == "dovetail.MemoryCopy"]
    assert len(copies) == 5, "x in; dense out; host in; last and first out"


def test_views_and_results_in_place_need_no_memory(hard, device, runtime):
    net = Network("in_place")
    x = net.input("x", SIZE)
    net.output(net.reshape(net.relu(net.relu(net.reshape(x, (4, 32)))), SIZE), "y")
    loaded = runtime.load(net, optimize={"backends": [device], "passes": False})
    assert np.array_equal(loaded(numbers()), relu(numbers()))
    assert not [step for step in loaded.plan.steps if step.layer_kind == "dovetail.Reshape"]
    assert device.device.counts["bytes"] == numbers().nbytes


def test_memory_without_offsets(hard, runtime, device):
    device.memory_type = hard.DeviceMemoryWithoutOffsets
    net = load(runtime, mixed_network(hard), [device, python(hard)], delay_us=100)
    assert_answer(net.run({"x": numbers()}), numbers())
    assert device.device.counts["allocations"] == sum(arena.domain != HOST for arena in net.memory.plan.arenas) > 1
    tensors = zip(net.memory.plan.placements, net.memory.tensor_names, strict=True)
    arenas = net.memory.plan.arenas
    on_device = [p for p, _ in tensors if p.storage is memory_plan.Storage.ARENA and arenas[p.index].domain != HOST]
    assert on_device
    assert all(placement.offset == 0 for placement in on_device)


def test_many_threads(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)], delay_us=50, claim="layers")

    def work(seed):
        for i in range(25):
            x = numbers(100 * seed + i)
            assert_answer(net.run({"x": x}), x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))  # raises what one of them raised
    counts = device.device.counts
    assert 1 <= counts["queues"] <= 8
    assert counts["allocations"] == counts["queues"]


# -- failures --------------------------------------------------------------------------------------


def test_a_late_error_names_layer_and_partition_and_the_network_stays_usable(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)], delay_us=100)
    steps = [s.name for s in net.plan.steps if s.queue == 0 and s.layer_kind != "dovetail.Wait"]
    first_wait = next(s for s in net.plan.steps if s.layer_kind == "dovetail.Wait")
    for at in range(3):
        device.device.set("fail_at", at)
        with pytest.raises(RunError) as caught:
            net.run({"x": numbers()})
        assert caught.value.code == ErrorCode.STEP_FAILED
        text = str(caught.value)
        assert f"command {at} of layer" in text
        if at:
            assert f"layer {steps[at]} failed" in text
        assert first_wait.name in text
        assert "TestDevice" in text
        assert {"a", "b", "c"} <= set(caught.value.details["sources"])
        device.device.set("fail_at", -1)
        assert_answer(net.run({"x": numbers()}), numbers())


@pytest.mark.parametrize("abort_status", [0, -1, -2, 9])
def test_a_hang_ends_by_timeout_whatever_an_aborted_queue_answers(hard, device, runtime, abort_status):
    net = load(runtime, mixed_network(hard), [device, python(hard)], abort_status=abort_status)
    for at in (0, 3):
        device.device.set("hang_at", at)
        begin = time.monotonic()
        with pytest.raises(RunTimeoutError) as caught:
            net.run({"x": numbers()}, timeout=0.1)
        assert time.monotonic() - begin < 1
        assert "wait for" in str(caught.value)
        device.device.set("hang_at", -1)
        assert_answer(net.run({"x": numbers()}, timeout=10), numbers())


def test_a_failing_host_layer_drains_the_device(hard, device, runtime):
    def fail(inputs):
        raise ValueError("no")

    net = Network("fails")
    x = net.input("x", SIZE)
    y = net.relu(x)
    z = net.add(hard.Call(function="fail"), x).output
    net.output(net.addition(y, z), "sum")
    net.output(net.fully_connected(y, WEIGHTS), "dense")
    loaded = load(runtime, net, [device, python(hard, fail=fail)], **SLOW)
    for _ in range(3):
        with pytest.raises(RunError, match="ValueError: no") as caught:
            loaded.run({"x": numbers()})
        assert isinstance(caught.value.__cause__, ValueError)


def test_an_absent_or_busy_device(hard, device, runtime):
    net = Network("one")
    net.output(net.relu(net.input("x", SIZE)), "y")
    for state in ("no_device", "device_busy", "driver_missing"):
        device.state = state
        with pytest.raises(BackendUnavailableError) as caught:
            load(runtime, net, [device])
        assert caught.value.code == ErrorCode.BACKEND_UNAVAILABLE
        assert caught.value.details["state"] == state
        assert caught.value.hint
    device.state = "ready"
    assert np.array_equal(load(runtime, net, [device])(numbers()), relu(numbers()))


@pytest.mark.parametrize("memory", ["DeviceMemoryManager", "DeviceMemoryWithoutOffsets"])
def test_out_of_memory_leaves_nothing_behind(hard, device, runtime, memory):
    device.memory_type = getattr(hard, memory)
    net = load(runtime, mixed_network(hard), [device, python(hard)], limit=1200)
    for _ in range(3):
        with pytest.raises(BackendError) as caught:
            net.run({"x": numbers()})
        assert caught.value.code == ErrorCode.OUT_OF_MEMORY
        assert caught.value.hint
        counts = device.device.counts
        assert (counts["allocations"], counts["queues"], counts["runs"]) == (0, 0, 0)
    device.device.set("limit", 1 << 30)
    assert_answer(net.run({"x": numbers()}), numbers())


def test_options_are_checked(hard, device, runtime):
    net = Network("one")
    net.output(net.relu(net.input("x", SIZE)), "y")
    with pytest.raises(OptionError) as caught:
        load(runtime, net, [device], delay_ms=3)
    assert caught.value.code == ErrorCode.OPTION_UNKNOWN
    assert "delay_us" in str(caught.value)


def test_two_devices(hard, device, runtime):
    registry = Registry()
    registry.register(device)
    net = Network("two")
    x = net.input("x", SIZE)
    net.output(net.relu(net.addition(x, net.relu(x, name="a"), name="b"), name="c"), "y")
    loaded = runtime.load(
        net,
        optimize={
            "backends": ["TestDevice:0", "TestDevice:1"],
            "require": {"b": "TestDevice:1"},
            "registry": registry,
            "passes": False,
            "options": {"TestDevice": {"delay_us": 200}},
        },
    )
    assert sorted(context.index for context in device.contexts) == [0, 1]
    for seed in range(5):
        assert np.array_equal(loaded(numbers(seed)), relu(numbers(seed) + relu(numbers(seed))))
    with pytest.raises(BackendError, match="has no device 2"):
        runtime.load(net, optimize={"backends": ["TestDevice:2"], "registry": registry})


@pytest.mark.parametrize("plan_cache_bytes", [0, 1 << 20], ids=["latest plan", "all plans"])
def test_other_sizes_in_every_call(hard, device, runtime, plan_cache_bytes):
    net = Network("sizes")
    x = net.input("x", ("N", 16))
    first = net.relu(net.addition(x, net.relu(x, name="a"), name="b"), name="c")
    host = net.add(hard.Call(function="negate"), first, name="host").output
    net.output(net.addition(net.relu(host, name="d"), first, name="e"), "y")
    optimize = {"backends": [device, python(hard)], "options": {"TestDevice": {"delay_us": 50}}}
    loaded = runtime.load(net, optimize=optimize, plan_cache_bytes=plan_cache_bytes)

    def work(seed):
        luck = random.Random(seed)
        for step in range(25):
            x = numbers(100 * seed + step, (luck.randint(1, 6), 16))
            first = relu(x + relu(x))
            assert np.array_equal(loaded(x), relu(-first) + first)

    work(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))
    assert len(loaded._plans) <= (1 if plan_cache_bytes == 0 else 6)


def test_two_objects_of_one_id_are_two_backends(hard, runtime):
    net = Network("one")
    net.output(net.relu(net.input("x", SIZE)), "y")
    backends = [hard.TestDevice(), hard.TestDevice()]
    for backend in backends:
        assert np.array_equal(load(runtime, net, [backend])(numbers()), relu(numbers()))
    assert [len(backend.contexts) for backend in backends] == [1, 1]
    assert [backend.device.counts["commands"] for backend in backends] == [3, 3]


def test_a_forked_child_is_refused(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)])
    net.run({"x": numbers()})
    binding = net.bind({"x": numbers()})
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # the queue's thread is not in the child: who waits for it waits for ever
        said = []
        try:
            for call in (binding.run, lambda: net.run({"x": numbers()})):
                try:
                    call()
                except RunError as error:
                    said.append(f"{error.code} {error.hint[:13]}")
            net.unload()
            said.append("unloaded")
        finally:
            os.write(writer, "; ".join(said).encode())
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    assert os.read(reader, 1000).decode() == "FORKED load it again; FORKED load it again; unloaded"
    os.close(reader)
    assert_answer(net.run({"x": numbers()}), numbers())


@pytest.mark.slow
def test_memory_of_a_run_that_the_device_does_not_release_is_never_used_again(hard, device):
    runtime = Runtime(threads=1)
    net = load(runtime, mixed_network(hard), [device, python(hard)])
    net.run({"x": numbers()})
    device.device.set("deaf", 1)
    device.device.set("hang_at", 1)
    with pytest.raises(RunTimeoutError, match="did not release"):
        net.run({"x": numbers()}, timeout=0.1)
    device.device.set("hang_at", -1)
    held = device.device.counts["allocations"]
    assert_answer(net.run({"x": numbers()}), numbers())
    assert device.device.counts["allocations"] == held + 1
    device.device.set("deaf", 0)
    net.unload()
    assert device.device.counts["allocations"] == held


# -- what is left behind ---------------------------------------------------------------------------


def test_unload_gives_everything_back_even_under_a_binding(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)], claim="layers")
    binding, other = (net.bind({"x": numbers()}) for _ in range(2))
    plan = net.plan
    assert_answer(binding.run(), numbers())
    assert_answer(other.run(), numbers())
    assert_answer(net.run({"x": numbers()}), numbers())
    assert device.device.counts["queues"] == 3
    net.unload()
    counts = device.device.counts
    assert {name: counts[name] for name in ("allocations", "bytes", "queues", "workloads", "runs")} == {
        "allocations": 0, "bytes": 0, "queues": 0, "workloads": 0, "runs": 0,
    }  # fmt: skip
    assert plan.steps, "what describes a plan survives"
    with pytest.raises(RunError) as caught:
        binding.run()
    assert caught.value.code == ErrorCode.NETWORK_UNLOADED


def test_private_bytes_are_counted(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)])
    assert net.memory.private_bytes == WEIGHTS.nbytes


def test_profile_covers_waits(hard, device, runtime):
    net = load(runtime, mixed_network(hard), [device, python(hard)], **SLOW)
    with net.profiling() as profile:
        net.run({"x": numbers()})
    waits = [layer for layer in profile.layers if layer.kind == "dovetail.Wait"]
    assert len(waits) == 2
    assert sum(wait.total_ns for wait in waits) > 5_000_000


def test_the_device_tells_when_it_worked(hard, device, runtime):
    """It takes some milliseconds for each command, on a clock two hours ahead of the host's."""
    net = load(runtime, mixed_network(hard), [device, python(hard)], **SLOW)
    with net.profiling() as profile:
        assert_answer(net.run({"x": numbers()}), numbers())
    (one,) = profile.each_run
    on_device = [layer for layer in profile.layers if layer.backend == "TestDevice"]
    assert sum(layer.device_ns for layer in on_device) > 20_000_000
    assert [layer.device_ns for layer in profile.layers if layer.name == "host"] == [None]
    for span in one.spans:
        assert one.times[span.step][0] - 5_000_000 < span.begin < span.end < one.times[-1][1] + 5_000_000
    assert all(copy.milliseconds is not None for copy in net.placement.copies)


def test_choices_of_a_device_are_measured_by_its_own_times(hard, device, runtime, tmp_path, monkeypatch):
    """Both ways are the same, and take some milliseconds of the device; enqueueing takes none."""
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(tmp_path))
    offered = []

    def choices(self, view, options, device):
        answer = Choices(view)
        for layer in view.layers:
            if layer.kind == "dovetail.Activation":
                offered.append(layer.name)
                answer.offer(layer, "plain", {"again": layer.descriptor})
        return answer

    monkeypatch.setattr(type(device), "choices", choices)
    net = Network("one")
    net.output(net.relu(net.input("x", SIZE), name="clamp"), "y")
    report = tune(net, [device], runtime=runtime, rounds=3, options={"TestDevice": {"busy_us": 2_000}})
    assert set(offered) == {"clamp"}
    assert not any("cannot be measured" in note for note in report.notes)
    (row,) = report.layers
    assert min(row.seconds.values()) > 0.002


LIES = ["ends", "begins", "after the run", "all of", "cover each other", "told no span", "told no span"]


@pytest.mark.parametrize("lie", [pytest.param(number, id=text) for number, text in enumerate(("", *LIES))])
def test_the_kit_judges_times_of_a_device(hard, device, lie):
    (check,) = (one for one in all_checks() if one.id == "profiles.device_times_are_true")
    result = run_check(check, Target(device), Settings(options={"delay_us": 2_000, "lie": lie}))
    if lie:
        assert result.status is Status.FAILED, result.text
        assert LIES[lie - 1] in result.text
    else:
        assert result.status is Status.PASSED, result.text


# -- mutations: with the rule taken out of the core, these very tests must fail --------------------


def host_after_device(hard):
    """A host layer that runs while the device still reads the memory of another host layer."""
    net = Network("overlap")
    x = net.input("x", SIZE)
    on_device = net.relu(net.add(hard.Call(function="negate"), x, name="first").output, name="device")
    on_host = net.add(hard.Call(function="negate"), x, name="second").output
    net.output(net.add(hard.Call(function="sum"), on_device, on_host, name="sum").output, "y")
    return net


def device_chain(hard):
    """Layers of one size, none of them in place."""
    net = Network("chain")
    y = net.input("x", SIZE)
    for i in range(4):
        y = net.fully_connected(y, WEIGHTS, name=f"dense{i}")
    net.output(y, "y")
    return net


def chain_answer(x):
    for _ in range(4):
        x = x @ WEIGHTS.T
    return x


def goes_wrong(hard, backend, network, answer):
    """True if the run fails, or answers wrongly."""
    with Runtime(threads=1) as runtime:
        functions = python(hard, sum=lambda inputs: inputs[0] + inputs[1])
        net = load(runtime, network(hard), [backend, functions], **SLOW)
        try:
            return not np.allclose(net(numbers()), answer(numbers()), rtol=1e-4, atol=1e-4)
        except RunError as error:
            return "memory" in str(error)


def overlap_answer(x):
    return relu(-x) - x


CASES = pytest.mark.parametrize(
    ("network", "answer"),
    [pytest.param(host_after_device, overlap_answer, id="host"), pytest.param(device_chain, chain_answer, id="device")],
)


@CASES
def test_nothing_goes_wrong_as_the_core_is(hard, device, network, answer):
    assert not goes_wrong(hard, device, network, answer)


@CASES
def test_mutation_without_waits_is_caught(hard, monkeypatch, network, answer):
    monkeypatch.setattr(PlanBuilder, "_with_waits", lambda self: self.drafts)
    assert goes_wrong(hard, hard.TestDevice(), network, answer)


def test_mutation_with_the_last_wait_only_is_caught(hard, monkeypatch):
    with_waits = PlanBuilder._with_waits

    def only_last(self):
        drafts = with_waits(self)
        waits = [draft for draft in drafts if draft.workload is None]
        return [draft for draft in drafts if draft.workload is not None] + waits[-1:]

    monkeypatch.setattr(PlanBuilder, "_with_waits", only_last)
    assert goes_wrong(hard, hard.TestDevice(), host_after_device, overlap_answer)


@CASES
def test_mutation_of_the_lifetime_rule_is_caught(hard, monkeypatch, network, answer):
    monkeypatch.setattr(memory_plan, "releases", lambda steps: list(range(len(steps))))
    assert goes_wrong(hard, hard.TestDevice(), network, answer)
