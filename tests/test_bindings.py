"""Bindings beside everything else that may happen to their network: unloading, other values, what is no array."""

import os
import threading

import numpy as np
import pytest

import dovetail
from dovetail import Network, RunError, Runtime
from dovetail.errors import ErrorCode

BACKENDS = ["CpuRef", "CpuAcc"]


class Array:
    """An array of another library, which does something where its memory is asked for."""

    def __init__(self, array, act):
        self.array, self.act = array, act

    def __dlpack__(self, **arguments):
        self.act()
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def ones(batch):
    return np.ones((batch, 8), np.float32)


def softmax_network():
    network = Network("bound")
    network.output(network.softmax(network.input("x", ("N", 8))), "y")
    return network


@pytest.fixture(params=BACKENDS)
def net(request):
    with Runtime(threads=1) as runtime:
        net = runtime.load(softmax_network(), optimize={"backends": [request.param]})
        net.run({"x": ones(4)})
        yield net


# -- unloading -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["input", "output"])
def test_an_unload_from_inside_a_bind_is_refused(net, where):
    codes = []

    def unload():
        with pytest.raises(RunError, match="from inside one of its runs") as error:
            net.unload()
        codes.append(error.value.code)

    if where == "input":
        binding = net.bind({"x": Array(ones(5), unload)})
    else:
        binding = net.bind({"x": ones(5)}, {"y": Array(np.empty_like(ones(5)), unload)})
    assert codes == [ErrorCode.STEP_FAILED]
    np.testing.assert_allclose(binding.run()["y"], 1 / 8, rtol=1e-6)
    net.unload()
    with pytest.raises(RunError) as error:
        binding.run()
    assert error.value.code == ErrorCode.NETWORK_UNLOADED


@pytest.mark.parametrize("what", ["unload", "close"])
def test_an_unload_from_inside_the_checks_of_a_run_is_refused(net, what):
    end = net.unload if what == "unload" else net._runtime.close
    with pytest.raises(RunError, match="from inside one of its runs"):
        net.run({"x": Array(ones(5), end)})
    np.testing.assert_allclose(net.run({"x": ones(5)})["y"], 1 / 8, rtol=1e-6)
    assert net._active == 0


@pytest.mark.parametrize("size", [4, 5])  # planned, and not
@pytest.mark.parametrize("where", ["input", "output"])
def test_an_unload_waits_for_a_bind(net, size, where):
    """Else what is bound would be made of workloads that are gone."""
    waiting = threading.Thread(target=net.unload)

    def unload_elsewhere():
        waiting.start()
        while not net._closed:
            pass
        waiting.join(0.2)
        assert waiting.is_alive()

    given = {"x": Array(ones(size), unload_elsewhere) if where == "input" else ones(size)}
    results = {"y": Array(np.empty_like(ones(size)), unload_elsewhere)} if where == "output" else {}
    with pytest.raises(RunError) as error:
        net.bind(given, results)
    assert error.value.code == ErrorCode.NETWORK_UNLOADED
    waiting.join(30)
    assert not waiting.is_alive()
    assert net._active == 0
    assert len(net._plans) == 0
    assert not net._factories


def test_binding_while_others_unload():
    """Threads alone: whoever comes too late is refused, and nothing else happens."""
    with Runtime(threads=1) as runtime:
        for i in range(100):
            net = runtime.load(softmax_network(), optimize={"backends": ["CpuRef"]})
            net.run({"x": ones(4)})
            found = set()
            begun = threading.Barrier(4)

            def bind(net=net, found=found, begun=begun):
                begun.wait()
                try:
                    while True:
                        net.bind({"x": ones(4)})
                except BaseException as error:
                    found.add(getattr(error, "code", error))

            threads = [threading.Thread(target=bind) for _ in range(3)]
            for thread in threads:
                thread.start()
            begun.wait()
            threading.Event().wait(0.0005 * (i % 8))
            net.unload()
            for thread in threads:
                thread.join(30)
            assert found == {ErrorCode.NETWORK_UNLOADED}
            assert net._active == 0


def test_a_plan_that_was_closed_makes_no_contexts(net):
    plan = net.plan
    net.unload()
    with pytest.raises(RunError) as error:
        dovetail.runtime.executor.Binding(net, plan, {"x": ones(4)}, {"y": ones(4)})
    assert error.value.code == ErrorCode.NETWORK_UNLOADED


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork()")
def test_a_child_unloads_though_another_thread_was_in_a_call(net):
    inside, go_on = threading.Event(), threading.Event()

    def wait():
        inside.set()
        go_on.wait(30)

    thread = threading.Thread(target=lambda: net.bind({"x": Array(ones(4), wait)}))
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        threading.Timer(20, lambda: os._exit(2)).start()
        net.unload()
        os._exit(0)
    go_on.set()
    thread.join(30)
    assert os.waitpid(child, 0)[1] == 0
    assert net._active == 0
