"""Check bindings while their network is unloaded, gets other values or is given no array."""

import os
import threading
from fractions import Fraction

import numpy as np
import pytest
from onnx import TensorProto, helper

import dovetail
from dovetail import ErrorCode, InputError, Network, RunError, Runtime

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


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_binding_is_profiled_step_by_step(backend):
    """Its context knows no plan: 300 step times, written to other memory, corrupted the heap."""
    network = Network("deep")
    slot = network.input("x", (2, 8))
    for _ in range(300):
        slot = network.softmax(slot)
    network.output(slot, "y")
    with dovetail.load(network, [backend], threads=1) as net:
        binding = net.bind({"x": ones(2)})
        for _ in range(3):
            with net.profiling() as profile:
                binding.run()
            assert profile.runs == 1
            assert len(profile.layers) == 300
            net.run({"x": ones(2)})


# -- unloading -------------------------------------------------------------------------------------


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
    end = net.unload if what == "unload" else net._on_unload.__self__.close  # of its runtime
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
    assert not net._maker.factories


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


# -- values of inputs ------------------------------------------------------------------------------


def model(*nodes, inputs, outputs):
    return helper.make_model(
        helper.make_graph(list(nodes), "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )


def branches():
    """y = -x if c else relu(x), of which the branch alone is planned that is taken."""

    def branch(kind, name):
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(kind, ["x"], [name])], kind, [], [info])

    return model(
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg", "a"), else_branch=branch("Relu", "b")),
        inputs=[
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        ],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )


def reshape():
    return model(
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
        inputs=[
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
            helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
        ],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])],
    )


@pytest.fixture
def load_onnx(tmp_path):
    nets = []

    def load(made, backend, **arguments):
        path = tmp_path / "values.onnx"
        path.write_bytes(made.SerializeToString())
        nets.append(dovetail.load(path, [backend], **arguments))
        return nets[-1]

    yield load
    for net in nets:
        net.unload()


@pytest.mark.parametrize("cache", [{}, {"plan_cache_bytes": 0}])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_binding_follows_the_values_of_its_inputs(load_onnx, backend, cache):
    net = load_onnx(branches(), backend, **cache)
    x, c, y = np.array([1, -2, 3], np.float32), np.array(True), np.empty(3, np.float32)
    binding = net.bind({"x": x, "c": c}, {"y": y})
    for taken in (True, False, False, True, False):
        c[...] = taken
        x *= 2
        assert binding.run(timeout=30)["y"] is y
        np.testing.assert_array_equal(y, -x if taken else np.maximum(x, 0))
        np.testing.assert_array_equal(net.run({"x": x, "c": c})["y"], y)
    c[...] = True
    with pytest.raises(dovetail.OptionError):
        binding.run(timeout="1")
    net.unload()
    with pytest.raises(RunError) as error:
        binding.run()
    assert error.value.code == ErrorCode.NETWORK_UNLOADED


def test_a_binding_says_that_its_outputs_have_other_shapes(load_onnx):
    net = load_onnx(reshape(), "CpuRef")
    x, shape = np.arange(6, dtype=np.float32), np.array([2, 3])
    binding = net.bind({"x": x, "shape": shape})
    np.testing.assert_array_equal(binding.run()["y"], x.reshape(2, 3))
    shape[:] = [3, 2]
    with pytest.raises(InputError, match=r"'y' is float32\[3, 2\], bound is float32\[2, 3\]") as error:
        binding.run()
    assert error.value.code == ErrorCode.BINDING_INVALID
    shape[:] = [2, 3]
    x += 1
    np.testing.assert_array_equal(binding.run()["y"], x.reshape(2, 3))


# -- what is none of what is asked for -------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "code"),
    [
        ([1], None, ErrorCode.INPUT_NAME),
        (None, None, ErrorCode.INPUT_NAME),
        ({1: 1, "a": 1}, None, ErrorCode.INPUT_NAME),
        ({"x": [1]}, None, ErrorCode.INPUT_DTYPE),
        ({"x": object()}, None, ErrorCode.INPUT_DTYPE),
        ({"x": ones(4)}, [1], ErrorCode.OUTPUT_NAME),
        ({"x": ones(4)}, 7, ErrorCode.OUTPUT_NAME),
        ({"x": ones(4)}, {1: ones(4), "a": ones(4)}, ErrorCode.OUTPUT_NAME),
        ({"x": ones(4)}, {"y": 1}, ErrorCode.INPUT_DTYPE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_bound_is_a_typed_error(net, inputs, outputs, code):
    with pytest.raises(InputError) as error:
        net.bind(inputs, outputs)
    assert error.value.code == code


@pytest.mark.parametrize("batch", [4, 5])  # planned, and not
@pytest.mark.parametrize(
    "timeout", ["1", b"1", bytearray(b"1"), 10**400, -(10**5000), [], 1j], ids=lambda value: type(value).__name__
)
def test_what_is_no_timeout_is_a_typed_error(net, timeout, batch):
    for call in (net.run, lambda feeds, timeout: net.bind(feeds).run(timeout=timeout)):
        with pytest.raises(dovetail.OptionError, match="is not a time") as error:
            call({"x": ones(batch)}, timeout=timeout)
        assert error.value.code == ErrorCode.OPTION_INVALID


@pytest.mark.parametrize("timeout", [np.float32(30), np.int64(30), Fraction(61, 2)])
def test_any_number_is_a_timeout(net, timeout):
    for batch in (4, 5, 6):
        np.testing.assert_allclose(net.run({"x": ones(batch)}, timeout=timeout)["y"], 1 / 8, rtol=1e-6)
    assert net.bind({"x": ones(4)}).run(timeout=timeout)
