"""What lives how long: networks, contexts, runtimes; and that nothing grows."""

import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest

from dovetail import BackendError, DovetailError, ErrorCode, Network, RunError, Runtime

X = np.arange(64, dtype=np.float32)


def relu_network(name="lifetime"):
    net = Network(name)
    net.output(net.relu(net.input("x", (64,))), "y")
    return net


def kernel_network(hard, mode, **attributes):
    net = Network(mode)
    net.output(net.add(hard.Parallel(mode=mode, **attributes), net.input("x", (64,)), name=mode).output, "y")
    return net


def load(runtime, network, *backends, **options):
    return runtime.load(network, optimize={"backends": list(backends), "options": {"TestDevice": options} if options else {}})


# -- unloading -------------------------------------------------------------------------------------


def test_unload_waits_for_runs_in_flight(hard, device):
    with Runtime(threads=2) as runtime:
        for network, backend in (
            (relu_network(), device),
            (kernel_network(hard, "deaf", work_us=300_000), hard.ParallelBackend()),
        ):
            options = {"delay_us": 100_000} if backend is device else {}
            net = load(runtime, network, backend, **options)
            begun = threading.Barrier(5)
            ended = []

            def work(net=net, begun=begun, ended=ended):
                begun.wait()
                ended.append(net.run({"x": X})["y"])

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            begun.wait()
            time.sleep(0.1)
            net.unload()
            assert net._active == 0
            for thread in threads:
                thread.join()
            assert len(ended) == 4
            assert all(np.array_equal(y, X) for y in ended)
    assert device.device.counts["workloads"] == 0


def test_unload_from_inside_a_run_is_refused(hard):
    """It would wait for itself; the run goes on, and a later unload works."""
    found = []

    def unload_myself(inputs):
        with pytest.raises(RunError, match="from inside one of its runs") as error:
            loaded.unload()
        found.append(error.value.code)
        return inputs[0]

    with Runtime(threads=1) as runtime:
        net = Network("inside")
        net.output(net.add(hard.Call(function="unload_myself"), net.input("x", (64,))).output, "y")
        loaded = load(runtime, net, hard.PythonBackend(unload_myself=unload_myself))
        assert np.array_equal(loaded(X), X)
        loaded.unload()
    assert found == [ErrorCode.STEP_FAILED]


def refused(call):
    with pytest.raises(RunError) as caught:
        call()
    assert caught.value.hint
    return caught.value.code


def test_an_unloaded_network_refuses_everything(hard):
    with Runtime(threads=1) as runtime:
        net = load(runtime, kernel_network(hard, "nested"), hard.ParallelBackend())
        binding = net.bind({"x": X})
        net.run({"x": X})
        net.unload()
        net.unload()
        for call in (
            lambda: net.run({"x": X}),
            lambda: net(X),
            lambda: net.submit({"x": X}),
            lambda: net.bind({"x": X}),
            lambda: net.memory,
            net.dump_plan,
            binding.run,
        ):
            assert refused(call) == ErrorCode.NETWORK_UNLOADED
        assert runtime.networks == ()
        assert "unloaded" in repr(net)


def test_unload_while_threads_keep_calling(hard, device):
    """Every call either answers rightly or says that the network is gone."""
    with Runtime(threads=2) as runtime:
        for _ in range(30):
            net = load(runtime, relu_network(), device, delay_us=20)
            wrong, answered = [], []

            def work(net=net, wrong=wrong, answered=answered):
                while True:
                    try:
                        answered.append(np.array_equal(net.run({"x": X})["y"], X))
                    except RunError as error:
                        if error.code != ErrorCode.NETWORK_UNLOADED:
                            wrong.append(error)
                        return

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            while not answered:
                time.sleep(0.001)
            net.unload()
            counts = device.device.counts
            assert (counts["allocations"], counts["queues"], counts["workloads"], counts["runs"]) == (0, 0, 0, 0)
            for thread in threads:
                thread.join()
            assert wrong == []
            assert all(answered)


def test_a_closed_runtime_unloads_and_refuses(hard, device):
    runtime = Runtime(threads=1)
    nets = [
        load(runtime, relu_network(), device, delay_us=50),
        load(runtime, kernel_network(hard, "nested"), hard.ParallelBackend()),
    ]
    future = nets[0].submit({"x": X})
    runtime.close()
    runtime.close()
    assert np.array_equal(future.result()["y"], X), "what was submitted is carried out"
    for net in nets:
        assert refused(lambda net=net: net.run({"x": X})) == ErrorCode.NETWORK_UNLOADED
    assert refused(lambda: load(runtime, relu_network(), device)) == ErrorCode.RUNTIME_CLOSED
    assert device.contexts[0].events[-1] == ("close",)


def test_context_managers(hard, device):
    with Runtime(threads=1) as runtime:
        with load(runtime, relu_network(), device) as net:
            assert np.array_equal(net(X), X)
        assert refused(lambda: net(X)) == ErrorCode.NETWORK_UNLOADED
        with pytest.raises(ZeroDivisionError), load(runtime, relu_network(), device) as net:
            raise ZeroDivisionError
        assert refused(lambda: net(X)) == ErrorCode.NETWORK_UNLOADED
    assert refused(lambda: load(runtime, relu_network(), device)) == ErrorCode.RUNTIME_CLOSED


# -- what contexts are told ------------------------------------------------------------------------


def test_contexts_are_told_in_pairs(hard, device):
    runtime = Runtime(threads=1)
    first = load(runtime, relu_network("first"), device)
    second = load(runtime, relu_network("second"), device)
    second(X)
    first.unload()
    runtime.close()
    (context,) = device.contexts
    assert [event[:2] for event in context.events] == [
        ("before_load", "first"), ("after_load", "first"), ("before_load", "second"), ("after_load", "second"),
        ("before_unload", "first"), ("after_unload", "first"), ("before_unload", "second"), ("after_unload", "second"),
        ("close",),
    ]  # fmt: skip
    assert [event[2] for event in context.events if event[0] == "after_load"] == [None, None]
    before, after = context.events[-3], context.events[-2]
    assert before[2]["workloads"] > 0
    assert before[2]["allocations"] == 1
    assert {after[2][name] for name in ("allocations", "queues", "workloads", "runs")} == {0}


def test_contexts_are_told_of_a_load_that_fails(hard, monkeypatch, device):
    def fail(self, layer):
        raise ZeroDivisionError("a bug of the backend")

    with Runtime(threads=1) as runtime:
        monkeypatch.setattr(hard.DeviceFactory, "create_workload", fail)
        with pytest.raises(BackendError, match="a bug of the backend") as caught:
            load(runtime, relu_network(), device)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        (before, after) = device.contexts[0].events
        assert before == ("before_load", "lifetime")
        assert after[:2] == ("after_load", "lifetime")
        assert after[2] is caught.value
        monkeypatch.undo()
        assert np.array_equal(load(runtime, relu_network(), device)(X), X)


def test_a_context_that_raises_stops_nobody(hard, monkeypatch, caplog, device):
    def fail(self, *_):
        raise ZeroDivisionError("told too much")

    for name in ("before_load", "after_load", "before_unload", "after_unload"):
        monkeypatch.setattr(hard.DeviceContext, name, fail)
    with Runtime(threads=1) as runtime:
        net = load(runtime, relu_network(), device)
        assert np.array_equal(net(X), X)
        net.unload()
    assert caplog.text.count("ZeroDivisionError: told too much") == 4
    assert list(device.contexts[0].events) == [("close",)]


def test_one_context_per_runtime_and_options(hard, device):
    with Runtime(threads=1) as first, Runtime(threads=1) as second:
        for runtime in (first, second):
            for options in ({"delay_us": 1}, {"delay_us": 2}, {"delay_us": 1}):
                assert np.array_equal(load(runtime, relu_network(), device, **options)(X), X)
        assert len(device.contexts) == 4
    assert all(context.events[-1] == ("close",) for context in device.contexts)


# -- without unload --------------------------------------------------------------------------------


def test_collected_networks_and_runtimes_do_not_crash(hard, device):
    for _ in range(10):
        runtime = Runtime(threads=2)
        nets = [load(runtime, relu_network(), device), load(runtime, kernel_network(hard, "sum"), hard.ParallelBackend())]
        binding = nets[0].bind({"x": X})
        binding.run()
        for net in nets:
            net.run({"x": X})
        gone = [weakref.ref(net) for net in nets]
        del net, nets, runtime
        binding.run()
        del binding
        gc.collect()
        assert [ref() for ref in gone] == [None, None]
    live = [context.device.counts for context in device.contexts]
    assert {(c["allocations"], c["queues"], c["workloads"], c["runs"]) for c in live} == {(0, 0, 0, 0)}


def test_a_result_outlives_everything(hard, device):
    runtime = Runtime(threads=1)
    y = load(runtime, relu_network(), device)(X)
    runtime.close()
    del runtime
    gc.collect()
    assert np.array_equal(y, X)


# -- nothing grows ---------------------------------------------------------------------------------


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


MIB = 1 << 20


def big_network(hard):
    """One MiB per tensor, so that a single one lost in a hundred would be seen."""
    net = Network("big")
    x = net.input("x", (256 * 1024,))
    y = net.relu(net.add(hard.Parallel(mode="nested", grain=4096), x).output)
    net.output(net.add(hard.Parallel(mode="workers", grain=4096), y).output, "y")
    return net


def test_memory_is_flat_over_runs(hard, device):
    x = np.ones(256 * 1024, np.float32)
    with Runtime(threads=2) as runtime:
        net = load(runtime, big_network(hard), device, hard.ParallelBackend())

        def work():
            for _ in range(125):
                net.run({"x": x}, timeout=60)

        def round_of_threads():
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        round_of_threads()
        before = resident()
        round_of_threads()
        assert resident() - before < 24 * MIB, "1000 runs of 1 MiB tensors"


def test_memory_is_flat_over_loads(hard, device):
    x = np.ones(256 * 1024, np.float32)
    with Runtime(threads=2) as runtime:

        def load_often(count):
            for i in range(count):
                net = load(runtime, big_network(hard), device, hard.ParallelBackend())
                net.run({"x": x})
                if i % 2:
                    net.unload()

        load_often(20)
        before = resident()
        load_often(200)
        assert resident() - before < 24 * MIB
        assert len(device.contexts) == 1
        device.contexts[0].events.clear()


def test_memory_is_flat_over_failures(hard, device):
    x = np.ones(256 * 1024, np.float32)
    with Runtime(threads=2) as runtime:
        net = load(runtime, big_network(hard), device, hard.ParallelBackend())
        net.run({"x": x})
        device.device.set("fail_at", 1)

        def fail_often(count):
            for _ in range(count):
                with pytest.raises(DovetailError):
                    net.run({"x": x})
                with pytest.raises(DovetailError):
                    net.run({"x": x[1:]})

        fail_often(20)
        before = resident()
        fail_often(200)
        assert resident() - before < 24 * MIB


def test_threads_do_not_pile_up(hard, device):
    def threads():
        return len(os.listdir("/proc/self/task"))

    with Runtime(threads=2) as runtime:
        load(runtime, big_network(hard), device, hard.ParallelBackend()).run({"x": np.ones(256 * 1024, np.float32)})
    gc.collect()
    before = threads()
    for _ in range(20):
        with Runtime(threads=3) as runtime:
            net = load(runtime, big_network(hard), device, hard.ParallelBackend())
            net.run({"x": np.ones(256 * 1024, np.float32)})
    del runtime, net
    gc.collect()
    assert threads() <= before


def test_what_is_dropped_is_told_to_the_contexts_too(hard, device):
    """Neither unload() nor close(): the collector must keep the calls in pairs."""
    runtime = Runtime(threads=1)
    loaded = load(runtime, relu_network("dropped"), device)
    loaded(X)
    del loaded
    gc.collect()
    (context,) = device.contexts
    assert [event[0] for event in context.events] == ["before_load", "after_load", "before_unload", "after_unload"]
    assert {context.events[-1][2][name] for name in ("allocations", "queues", "workloads", "runs")} == {0}
    del runtime
    gc.collect()
    assert context.events[-1] == ("close",)
