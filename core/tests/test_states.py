"""States: what a run reads as the run before left it."""

import numpy as np
import pytest

import dovetail
from dovetail import ErrorCode, GraphError, InputError, Network, Quantization, RunError
from dovetail.graph.meaning import Meaning


def running_sum(shape=(2, 3), dtype="float32", initial=None, quantization=None):
    network = Network("running sum")
    x = network.input("x", shape, dtype, quantization)
    total = network.state("total", shape, dtype, quantization, initial=initial)
    after = network.addition(total, x, name="after")
    network.write_state("total", after)
    network.output(network.multiplication(after, np.asarray(2, dtype)), "y")
    return network


def ones(shape=(2, 3), value=1.0):
    return {"x": np.full(shape, value, np.float32)}


def test_each_run_reads_what_the_run_before_left():
    with dovetail.load(running_sum(), "CpuRef") as net:
        assert [spec.name for spec in net.inputs] == ["x"]
        assert [spec.name for spec in net.outputs] == ["y"]
        for count in (1, 2, 3):
            results = net.run(ones())
            assert list(results) == ["y"]
            assert (results["y"] == 2 * count).all()
        net.reset_state()
        assert (net.run(ones())["y"] == 2).all()
        assert (net(np.ones((2, 3), np.float32)) == 4).all()


def test_streams_do_not_mix():
    with dovetail.load(running_sum(), "CpuRef") as net:
        ours, theirs = net.new_state(), net.new_state()
        net.run(ones(), state=ours)
        net.run(ones(value=10.0), state=theirs)
        assert (net.run(ones(), state=ours)["y"] == 4).all()
        assert (net.run(ones(), state=theirs)["y"] == 22).all()
        assert (net.run(ones())["y"] == 2).all()


def test_a_network_without_states_takes_the_same_calls():
    network = Network("plain")
    network.output(network.relu(network.input("x", (2, 3))), "y")
    with dovetail.load(network, "CpuRef") as net:
        net.reset_state()
        state = net.new_state()
        assert state.values == net.state.values == {}
        for found in (net.run(ones(), state=state), net.submit(ones(), state=state).result()):
            assert (found["y"] == 1).all()
        assert list(net.run(ones(), outputs=["y"], state=state)) == ["y"]


@pytest.mark.parametrize("outputs", [None, ["y"]])
def test_a_state_of_something_else_is_refused(outputs):
    plain = Network("plain")
    plain.output(plain.relu(plain.input("x", (2, 3))), "y")
    with dovetail.load(running_sum(), "CpuRef") as net, dovetail.load(plain, "CpuRef") as other:
        for one, state, said in (
            (net, other.new_state(), "network 'plain' was given, which remembers nothing"),
            (other, net.new_state(), "network 'running sum' was given, which remembers 'total'"),
            (net, 3, "'int' is no state"),
            (other, "total", "'str' is no state"),
        ):
            with pytest.raises(InputError, match=said) as caught:
                one.run(ones(), outputs=outputs, state=state)
            assert caught.value.code == ErrorCode.INPUT_NAME
            assert "new_state()" in caught.value.hint


def test_a_state_serves_each_network_that_remembers_the_same():
    with dovetail.load(running_sum(), "CpuRef") as net, dovetail.load(running_sum(), "CpuRef") as twin:
        state = net.new_state()
        net.run(ones(), state=state)
        assert (twin.run(ones(), state=state)["y"] == 4).all()


def test_a_copy_remembers_as_much():
    network = running_sum()
    network.meanings = {"y": Meaning(labels=("a", "b", "c"))}
    assert network.copy().meanings == network.meanings
    with dovetail.load(network.copy(), "CpuRef") as net:
        assert [spec.name for spec in net.inputs] == ["x"]
        assert [float(net.run(ones())["y"][0, 0]) for _ in range(3)] == [2, 4, 6]


def test_an_initial_value_is_read_first():
    with dovetail.load(running_sum(initial=np.full((2, 3), 5, np.float32)), "CpuRef") as net:
        assert (net.run(ones())["y"] == 12).all()
        assert (net.run(ones())["y"] == 14).all()


def test_values_may_be_kept_and_put_back():
    with dovetail.load(running_sum(), "CpuRef") as net:
        assert net.state.values == {}
        net.run(ones())
        kept = net.state.values
        net.run(ones())
        kept["total"][...] += 0  # a copy: whoever has it may write to it
        net.state.set(kept)
        assert (net.run(ones())["y"] == 4).all()
        with pytest.raises(InputError, match="no state 'other'"):
            net.state.set({"other": kept["total"]})
        with pytest.raises(InputError, match="shape"):
            net.state.set({"total": np.zeros((3, 2), np.float32)})


def test_zero_is_the_zero_point_of_what_stands_for_real_numbers():
    network = Network("quantized")
    meaning = Quantization.per_tensor(0.5, 7)
    network.input("x", (3,), "int8", meaning)
    held = network.state("held", (3,), "int8", meaning)
    network.output(held, "y")
    network.write_state("held", network.layer("x").output)
    with dovetail.load(network, "CpuRef") as net:
        assert (net.run({"x": np.full(3, 1, np.int8)})["y"] == 7).all()
        assert (net.run({"x": np.full(3, 2, np.int8)})["y"] == 1).all()


def test_open_sizes_follow_the_inputs():
    with dovetail.load(running_sum(shape=("N", 3)), "CpuRef") as net:
        net.run(ones((4, 3)))
        assert (net.run(ones((4, 3)))["y"] == 4).all()
        with pytest.raises(InputError):
            net.run(ones((5, 3)))
        net.reset_state()
        assert (net.run(ones((5, 3)))["y"] == 2).all()


def test_a_run_that_fails_leaves_the_state():
    with dovetail.load(running_sum(), "CpuRef") as net:
        net.run(ones())
        with pytest.raises(InputError):
            net.run(ones((3, 2)))
        with pytest.raises(InputError, match="no input 'total'"):
            net.run({**ones(), "total": np.zeros((2, 3), np.float32)})
        assert (net.run(ones())["y"] == 4).all()


def test_two_runs_at_once_never_share_a_state():
    with dovetail.load(running_sum(), "CpuRef") as net:
        with net.state._in_use():
            with pytest.raises(RunError) as caught:
                net.run(ones())
            with pytest.raises(RunError):
                net.reset_state()
            results = net.run(ones(), state=net.new_state())
        assert caught.value.code is ErrorCode.STATE_IN_USE
        assert (results["y"] == 2).all()
        futures = [net.submit(ones(), state=net.new_state()) for _ in range(8)]
        assert all((future.result()["y"] == 2).all() for future in futures)


def test_what_is_never_written_is_no_state():
    network = Network("forgetful")
    network.output(network.state("held", (3,)), "y")
    with pytest.raises(GraphError, match="never writes its state 'held'"):
        dovetail.load(network, "CpuRef")


def test_states_are_checked_where_they_are_made():
    network = Network("checked")
    x = network.input("x", (3,))
    network.state("held", (3,))
    with pytest.raises(GraphError, match="no state 'other'"):
        network.write_state("other", x)
    with pytest.raises(GraphError, match="next value"):
        network.write_state("held", network.constant(np.zeros(4, np.float32)))
    with pytest.raises(GraphError, match="initial value"):
        network.state("second", (3,), initial=np.zeros(4, np.float32))
    network.write_state("held", x)
    with pytest.raises(GraphError, match="written already"):
        network.write_state("held", x)


def test_a_network_that_remembers_is_not_bound():
    with dovetail.load(running_sum(), "CpuRef") as net, pytest.raises(InputError) as caught:
        net.bind(ones())
    assert caught.value.code is ErrorCode.BINDING_INVALID


def test_states_of_an_optimized_network_are_inputs_and_outputs():
    optimized = dovetail.optimize(running_sum(), ["CpuRef"])
    with dovetail.Runtime() as runtime, runtime.load(optimized) as net:
        assert [spec.name for spec in net.inputs] == ["x", "total"]
        assert [spec.name for spec in net.outputs] == ["total/next", "y"]
