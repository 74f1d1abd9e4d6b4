"""Test kernels on the thread pool, and exclusive vendors: bits, failures, forks, runtimes."""

import os
import platform
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

from dovetail import ErrorCode, Network, RunError, Runtime, RunTimeoutError

N = 10_000


def numbers(seed=0):
    return np.random.default_rng(seed).standard_normal(N).astype(np.float32)


def network(hard, *modes, **attributes):
    """A chain of parallel workloads."""
    net = Network("-".join(modes))
    x = net.input("x", (N,))
    for mode in modes:
        x = net.add(hard.Parallel(mode=mode, **{"grain": 100, **attributes}), x, name=mode).output
    net.output(x, "y")
    return net


def load(hard, runtime, *modes, threads=None, **attributes):
    return runtime.load(network(hard, *modes, **attributes), threads=threads, optimize={"backends": [hard.ParallelBackend()]})


def in_threads(count, work):
    """Run work(i) in `count` threads; returns what they raised."""
    raised = []

    def guarded(i):
        try:
            work(i)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


CHAIN = ("nested", "sum", "workers", "sum")


def test_bits_do_not_depend_on_threads_or_on_a_busy_pool(hard):
    with Runtime(threads=1) as runtime:
        expected = [load(hard, runtime, *CHAIN)(numbers(seed)) for seed in range(4)]
    assert len({e.tobytes() for e in expected}) == 4
    for threads in (1, 2, 3, 8):
        with Runtime(threads=threads) as runtime:
            net = load(hard, runtime, *CHAIN)
            capped = load(hard, runtime, *CHAIN, threads=2)

            def work(i, nets=(net, capped)):
                for _ in range(20):
                    for candidate in nets:
                        result = candidate(numbers(i % 4))
                        assert result.tobytes() == expected[i % 4].tobytes()

            assert in_threads(8, work) == []


def test_the_answer_is_right(hard):
    x = numbers()
    with Runtime(threads=3) as runtime:
        np.testing.assert_array_equal(load(hard, runtime, "nested")(x), 2 * x + 1)
        total = np.float32(sum(x[i : i + 100].astype(np.float64).sum() for i in range(0, N, 100)))
        np.testing.assert_allclose(load(hard, runtime, "sum")(x), x + total, rtol=1e-6, atol=1e-5)
        np.testing.assert_array_equal(load(hard, runtime, "workers")(x), x)


def test_workers_have_their_workspace_to_themselves(hard):
    with Runtime(threads=4) as runtime:
        net = load(hard, runtime, "workers", grain=50, work_us=20)
        assert in_threads(8, lambda i: [net(numbers(i)) for _ in range(5)]) == []


def test_a_failing_chunk_ends_the_run_and_the_first_failure_is_told(hard):
    with Runtime(threads=4) as runtime:
        one = load(hard, runtime, "nested", "fail", chunk=57)
        every = load(hard, runtime, "nested", "fail_all", work_us=50)
        silent = load(hard, runtime, "nested", "ignores_failure", chunk=99)
        good = load(hard, runtime, *CHAIN)
        expected = good(numbers()).tobytes()

        def work(i):
            for _ in range(10):
                for net, layer, text in ((one, "fail", "chunk 57 failed"), (every, "fail_all", "chunk "),
                                         (silent, "ignores_failure", "chunk 99 failed")):  # fmt: skip
                    with pytest.raises(RunError, match=text) as caught:
                        net(numbers())
                    assert caught.value.code == ErrorCode.STEP_FAILED
                    assert caught.value.details["layer"] == layer
                    assert caught.value.details["status"] == 42
                assert good(numbers()).tobytes() == expected

        assert in_threads(4, work) == []


@pytest.mark.parametrize("mode", ["poll", "poll_chunks"])
def test_a_timeout_ends_a_kernel_that_polls(hard, mode):
    with Runtime(threads=2) as runtime:
        net = load(hard, runtime, mode, work_us=30_000_000)

        def work(i):
            begin = time.monotonic()
            with pytest.raises(RunTimeoutError, match=mode) as caught:
                net.run({"x": numbers()}, timeout=0.1)
            assert 0.1 <= time.monotonic() - begin < 1.1
            assert caught.value.code == ErrorCode.TIMEOUT

        assert in_threads(4, work) == []
        quick = load(hard, runtime, mode, work_us=10, grain=5000)
        np.testing.assert_array_equal(quick.run({"x": numbers()}, timeout=5)["y"], numbers())


def test_a_timeout_ends_a_chain_between_steps_of_kernels_that_do_not_poll(hard):
    with Runtime(threads=1) as runtime:
        net = load(hard, runtime, *["deaf"] * 100, work_us=20_000)
        begin = time.monotonic()
        with pytest.raises(RunTimeoutError):
            net.run({"x": numbers()}, timeout=0.1)
        assert time.monotonic() - begin < 1


def test_a_timeout_that_does_not_pass_changes_nothing(hard):
    with Runtime(threads=2) as runtime:
        net = load(hard, runtime, *CHAIN)
        for _ in range(200):
            assert net.run({"x": numbers()}, timeout=10)["y"].tobytes() == net(numbers()).tobytes()


def test_profile_marks(hard):
    with Runtime(threads=1) as runtime:
        net = load(hard, runtime, "nested", "mark")
        with net.profiling() as profile:
            net(numbers())
            net(numbers())
        trace = profile.to_chrome_trace()
        assert trace.count('"begin"') == trace.count('"end"') == 2
        assert '"layer": "mark"' in trace


@pytest.mark.parametrize("threads", [1, 3])
def test_a_profile_has_what_workers_did(hard, threads):
    with Runtime(threads=threads) as runtime:
        net = load(hard, runtime, *CHAIN)
        with net.profiling() as profile:
            for _ in range(20):
                net(numbers())
    noted = [work for run in profile.each_run for work in run.works]
    assert all(work.worker < threads for work in noted)
    assert bool(noted) == (threads > 1), "what one thread did alone is the time of the step"
    for run in profile.each_run:
        for work in run.works:
            begin, end = run.times[work.step]
            assert begin <= work.begin <= work.end <= end, "a loop lies inside of its step"
            assert 0 < work.busy <= work.end - work.begin


def test_a_forked_child_respawns_the_pool(hard):
    with Runtime(threads=4) as runtime:
        net = load(hard, runtime, *CHAIN)
        expected = net(numbers()).tobytes()
        for _ in range(5):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    good = all(net(numbers()).tobytes() == expected for _ in range(20))
                    good = good and in_threads(3, lambda i: net.run({"x": numbers()}, timeout=10)) == []
                    os.write(writer, b"good" if good else b"bad")
                finally:
                    os._exit(0)
            os.close(writer)
            assert os.read(reader, 10) == b"good"
            os.close(reader)
            os.waitpid(child, 0)
        assert net(numbers()).tobytes() == expected


def test_one_runtime_is_closed_while_another_runs(hard):
    stop = threading.Event()
    with Runtime(threads=3) as lasting:
        net = load(hard, lasting, *CHAIN)
        expected = net(numbers()).tobytes()

        def work(i):
            while not stop.is_set():
                assert net(numbers()).tobytes() == expected

        raised = []
        thread = threading.Thread(target=lambda: raised.extend(in_threads(2, work)))
        thread.start()
        try:
            for _ in range(20):
                with Runtime(threads=2) as other:
                    assert load(hard, other, *CHAIN)(numbers()).tobytes() == expected
        finally:
            stop.set()
            thread.join()
        assert raised == []


# -- vendors that want to be alone -----------------------------------------------------------------

ANY, NETWORK, DEVICE = range(3)


def run_many(nets):
    return in_threads(6, lambda i: [nets[i % len(nets)](numbers()) for _ in range(8)])


def alone(hard, runtime, concurrency, backend=None, slot=0):
    net = network(hard, "alone", chunk=slot, work_us=2000, concurrency=concurrency)
    return runtime.load(net, optimize={"backends": [backend or hard.ParallelBackend()]})


def test_the_workload_notices_company(hard):
    with Runtime(threads=2) as runtime:
        raised = run_many([alone(hard, runtime, ANY)])
        assert raised
        assert "two runs at once" in str(raised[0])


def test_one_run_of_a_network_at_a_time(hard):
    with Runtime(threads=2) as runtime:
        assert run_many([alone(hard, runtime, NETWORK)]) == []
        assert run_many([alone(hard, runtime, NETWORK), alone(hard, runtime, NETWORK)]) != []


def test_one_run_on_a_device_at_a_time_over_networks_and_runtimes(hard):
    with Runtime(threads=2) as first, Runtime(threads=2) as second:
        assert run_many([alone(hard, first, DEVICE), alone(hard, first, DEVICE)]) == []
        assert run_many([alone(hard, first, DEVICE), alone(hard, second, DEVICE)]) == []


def test_a_deadline_passes_while_others_hold_the_device(hard):
    with Runtime(threads=2) as runtime:
        net = alone(hard, runtime, NETWORK)
        slow = runtime.load(
            network(hard, "deaf", work_us=800_000, concurrency=DEVICE), optimize={"backends": [hard.ParallelBackend()]}
        )
        quick = alone(hard, runtime, DEVICE)
        thread = threading.Thread(target=lambda: slow(numbers()))
        thread.start()
        time.sleep(0.1)
        begin = time.monotonic()
        with pytest.raises(RunTimeoutError, match="held the device"):
            quick.run({"x": numbers()}, timeout=0.1)
        assert time.monotonic() - begin < 0.6
        net(numbers())
        thread.join()
        quick(numbers())


def test_networks_that_share_two_devices_do_not_wait_for_each_other(hard):
    """Each network takes the locks of both devices, and meets them in another order."""
    with Runtime(threads=2) as runtime:
        backends = [hard.ParallelBackend(), hard.SecondParallelBackend()]
        nets = []
        for order in (("a", "b"), ("b", "a")):
            net = Network("-".join(order))
            x = net.input("x", (N,))
            for name in order:
                kind = hard.Parallel(mode="alone", chunk="ab".index(name), work_us=100, concurrency=DEVICE)
                x = net.add(kind, x, name=name).output
            net.output(x, "y")
            require = {"a": "ParallelTest", "b": "SecondParallelTest"}
            nets.append(runtime.load(net, optimize={"backends": backends, "require": require}))
        raised = in_threads(4, lambda i: [nets[i % 2].run({"x": numbers()}, timeout=20) for _ in range(50)])
        assert raised == []


# -- plain Python ----------------------------------------------------------------------------------


def test_a_python_workload_with_a_kind_of_its_own(hard):
    seen = []

    def look(inputs):
        seen.append((inputs[0].flags.writeable, threading.current_thread()))
        return inputs[0] ** 3

    with Runtime(threads=2) as runtime:
        net = Network("python")
        net.output(net.add(hard.Call(function="look"), net.input("x", (4,)), name="cube").output, "y")
        loaded = runtime.load(net, optimize={"backends": [hard.PythonBackend(look=look)]})
        x = np.arange(4, dtype=np.float32)
        assert np.array_equal(loaded(x), x**3)
        assert in_threads(8, lambda i: [np.testing.assert_array_equal(loaded(x + i), (x + i) ** 3) for _ in range(100)]) == []
        assert not any(writeable for writeable, _ in seen)


@pytest.mark.parametrize("error", [ValueError("bad"), ZeroDivisionError(), RuntimeError("ünïcode \N{SNOWMAN}")])
def test_what_python_raises_is_the_cause(hard, error):
    def fail(inputs):
        raise error

    with Runtime(threads=1) as runtime:
        net = Network("python")
        net.output(net.add(hard.Call(function="fail"), net.input("x", (4,)), name="broken").output, "y")
        loaded = runtime.load(net, optimize={"backends": [hard.PythonBackend(fail=fail)]})
        for _ in range(3):
            with pytest.raises(RunError) as caught:
                loaded(np.zeros(4, np.float32))
            assert caught.value.__cause__ is error
            assert caught.value.code == ErrorCode.STEP_FAILED
            assert caught.value.details["layer"] == "broken"
            assert type(error).__name__ in str(caught.value)
            assert "PythonTest" in str(caught.value)


def test_what_python_returns_in_a_wrong_shape_is_an_error(hard):
    with Runtime(threads=1) as runtime:
        net = Network("python")
        net.output(net.add(hard.Call(function="wrong"), net.input("x", (4,))).output, "y")
        loaded = runtime.load(net, optimize={"backends": [hard.PythonBackend(wrong=lambda inputs: np.zeros(3))]})
        with pytest.raises(RunError, match="broadcast"):
            loaded(np.zeros(4, np.float32))


# -- without Python, under ThreadSanitizer ---------------------------------------------------------

GCC = shutil.which("gcc")


@pytest.mark.skipif(GCC is None, reason="the C program needs gcc")
@pytest.mark.parametrize("sanitizer", [[], ["-fsanitize=thread"]], ids=["plain", "thread_sanitizer"])
def test_run_loop_without_python(root, tmp_path, sanitizer):
    core, here, program = root / "core", root / "tests" / "hard_customers" / "csrc", tmp_path / "run_loop"
    folders = [core / "src" / "dovetail" / "include", core / "csrc", core / "tests" / "c", here]
    sources = [here / "run_loop.c", here / "test_device.c", *sorted((core / "csrc").glob("*.c"))]
    flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", *sanitizer]
    built = subprocess.run(
        [GCC, *flags, *(f"-I{folder}" for folder in folders), *map(str, sources), "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    for command in ([str(program)], ["setarch", platform.machine(), "-R", str(program)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
        if "unexpected memory mapping" not in done.stderr:  # ThreadSanitizer expects fewer random address bits
            break
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "device_steps" in done.stdout
