"""Ctrl-C and deadlines: a run ends soon, with the right exception, and the network goes on working.

Each case runs in a process of its own, which is sent a real SIGINT while it is deep in a run.
"""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from dovetail import Network, RunError, Runtime, RunTimeoutError
from dovetail.ground.limits import under_way

SLACK = 1.0  # the promise is 0.2 s; machines that test are busy

PROLOGUE = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may start background jobs with it ignored
import numpy as np
import dovetail
from dovetail import Network, Runtime
from dovetail_hard.backends import *

x = np.arange(1000, dtype=np.float32)

def chain(*layers):
    net = Network("interrupted")
    slot = net.input("x", (1000,))
    for i, layer in enumerate(layers):
        slot = net.add(layer, slot, name=f"layer{i}").output if not isinstance(layer, str) else getattr(net, layer)(slot)
    net.output(slot, "y")
    return net

def load(network, threads=2, **options):
    backends = [TestDevice(), ParallelBackend(), PythonBackend(spin=spin, same=lambda i: i[0])]
    loaded = Runtime(threads=threads).load(network, optimize={"backends": backends, "options": {"TestDevice": options}})
    return loaded, backends[0]

def spin(inputs):
    end = time.monotonic() + quick[0]
    while time.monotonic() < end:
        pass
    return inputs[0]

quick = [20]

def run_out_of_time():
    try:
        net.run({"x": x}, timeout=0.05)
    except dovetail.RunTimeoutError:
        return
    raise AssertionError
"""

EPILOGUE = """
print("running", flush=True)
try:
    run()
    print("finished", flush=True)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
except BaseException as error:
    print(type(error).__name__, error, flush=True)
again()
print("usable", flush=True)
"""

CASES = {
    # one kernel that polls, for 20 s
    "long_kernel": """
net, _ = load(chain(Parallel(mode="poll", work_us=20_000_000)))
short, _ = load(chain(Parallel(mode="poll", work_us=10)))
run = lambda: net.run({"x": x})
def again():
    assert np.array_equal(short.run({"x": x})["y"], x)
    run_out_of_time()
""",
    # the same, in the bodies of a parallel range
    "long_chunks": """
net, _ = load(chain(Parallel(mode="poll_chunks", work_us=20_000_000, grain=10)), threads=3)
run = lambda: net.run({"x": x})
again = run_out_of_time
""",
    # many short steps, none of which polls
    "many_steps": """
net, _ = load(chain(*[Parallel(mode="deaf", work_us=1000)] * 5000), threads=1)
run = lambda: net.run({"x": x})
def again():
    pass
""",
    # waiting for a device that hangs
    "device": """
net, device = load(chain("relu"))
net.run({"x": x})
device.device.set("hang_at", 1)
run = lambda: net.run({"x": x})
def again():
    device.device.set("hang_at", -1)
    assert np.array_equal(net.run({"x": x})["y"], x)
    assert device.device.violation == ""
""",
    # a bound run
    "binding": """
net, device = load(chain("relu"))
binding = net.bind({"x": x})
device.device.set("hang_at", 0)
run = binding.run
def again():
    device.device.set("hang_at", -1)
    assert np.array_equal(binding.run()["y"], x)
""",
    # waiting for another run that has the device
    "lock": """
net, _ = load(chain(Parallel(mode="poll", work_us=5_000_000, concurrency=2)))
other = threading.Thread(target=lambda: net.run({"x": x}, timeout=3), daemon=True)
other.start()
time.sleep(0.2)
run = lambda: net.run({"x": x})
def again():
    other.join()
""",
    # in a workload written in Python
    "python": """
net, _ = load(chain(Call(function="spin")))
run = lambda: net.run({"x": x})
def again():
    quick[0] = 0
    assert np.array_equal(net.run({"x": x})["y"], x)
""",
    # many runs, each too short to be interrupted by itself
    "many_runs": """
net, _ = load(chain(Parallel(mode="nested")))
def run():
    end = time.monotonic() + 20
    while time.monotonic() < end:
        net.run({"x": x})
def again():
    assert np.array_equal(net.run({"x": x})["y"], 2 * x + 1)
""",
}


@contextmanager
def interrupted(hard, program, after=0.3):
    """A process that gets Ctrl-C so many seconds after it says that it is running."""
    library = Path(hard.__file__).parents[1]
    paths = os.pathsep.join([str(library), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + program + EPILOGUE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def ended(process):
    """Return what else it prints: `communicate` would lose the lines that `readline` read ahead."""
    rest, errors = process.stdout.read(), process.stderr.read()
    process.wait(timeout=30)
    return rest, errors


@pytest.mark.parametrize("case", CASES)
def test_ctrl_c(hard, case):
    with interrupted(hard, CASES[case]) as process:
        begin = time.monotonic()
        line = process.stdout.readline()
        took = time.monotonic() - begin
        rest, errors = ended(process)
    assert line == "KeyboardInterrupt\n", f"{line}{rest}{errors}"
    assert took < 0.2 + SLACK
    assert rest == "usable\n", errors
    assert process.returncode == 0


def test_ctrl_c_is_for_the_main_thread_only(hard):
    """A run on another thread goes on; the main thread gets the exception."""
    program = """
net, _ = load(chain(Parallel(mode="poll", work_us=1_000_000)))
results = []
other = threading.Thread(target=lambda: results.append(net.run({"x": x})["y"]))
other.start()
def run():
    time.sleep(20)
def again():
    other.join()
    assert np.array_equal(results[0], x)
"""
    with interrupted(hard, program, 0.2) as process:
        rest, errors = ended(process)
    assert rest == "KeyboardInterrupt\nusable\n", errors


def test_a_handler_of_the_program_sees_signals_during_a_run(hard):
    """A signal whose handler does not raise is handled in mid-run, and the run goes on."""
    program = """
net, _ = load(chain(Parallel(mode="poll", work_us=1_500_000)))
seen = []
signal.signal(signal.SIGINT, lambda *_: (seen.append(time.monotonic()), print("handled", flush=True)))
def run():
    assert np.array_equal(net.run({"x": x})["y"], x)
    assert seen and time.monotonic() - seen[0] > 0.2
def again():
    pass
"""
    with interrupted(hard, program) as process:
        begin = time.monotonic()
        assert process.stdout.readline() == "handled\n"
        assert time.monotonic() - begin < 0.2 + SLACK
        rest, errors = ended(process)
    assert rest == "finished\nusable\n", errors


# -- deadlines -------------------------------------------------------------------------------------

X = np.arange(1000, dtype=np.float32)


def chain(*layers):
    net = Network("deadline")
    x = net.input("x", (1000,))
    for i, layer in enumerate(layers):
        x = net.relu(x) if layer == "relu" else net.add(layer, x, name=f"layer{i}").output
    net.output(x, "y")
    return net


@pytest.mark.parametrize("mode", ["long_kernel", "many_steps", "device"])
def test_a_deadline(hard, device, mode):
    layers = {
        "long_kernel": [hard.Parallel(mode="poll", work_us=20_000_000)],
        "many_steps": [hard.Parallel(mode="deaf", work_us=1000)] * 2000,
        "device": ["relu"],
    }[mode]
    with Runtime(threads=2) as runtime:
        net = runtime.load(chain(*layers), optimize={"backends": [device, hard.ParallelBackend()]})
        if mode == "device":
            net.run({"x": X})
            device.device.set("hang_at", 1)
        for timeout in (0.05, 0.3):
            begin = time.monotonic()
            with pytest.raises(RunTimeoutError) as caught:
                net.run({"x": X}, timeout=timeout)
            assert timeout <= time.monotonic() - begin < timeout + 0.2 + SLACK
            assert isinstance(caught.value, TimeoutError)
            assert caught.value.hint
        if mode == "device":
            device.device.set("hang_at", -1)
            assert np.array_equal(net.run({"x": X}, timeout=10)["y"], X)


def test_a_future_has_a_deadline_too(hard):
    with Runtime(threads=2) as runtime:
        backends = {"backends": [hard.ParallelBackend()]}
        slow = runtime.load(chain(hard.Parallel(mode="poll", work_us=20_000_000)), optimize=backends)
        quick = runtime.load(chain(hard.Parallel(mode="nested")), optimize=backends)
        begin = time.monotonic()
        futures = [slow.submit({"x": X}, timeout=0.1) for _ in range(3)]
        good = [quick.submit({"x": X + i}) for i in range(20)]
        for future in futures:
            assert isinstance(future.exception(timeout=20), RunTimeoutError)
        assert time.monotonic() - begin < 5
        for i, future in enumerate(good):
            assert np.array_equal(future.result(timeout=20)["y"], 2 * (X + i) + 1)


def test_a_future_that_has_not_begun_can_be_cancelled(hard):
    with Runtime(threads=1) as runtime:
        net = runtime.load(chain(hard.Parallel(mode="poll", work_us=300_000)), optimize={"backends": [hard.ParallelBackend()]})
        futures = [net.submit({"x": X}) for _ in range(40)]
        last = futures[-1]
        assert last.cancel()
        with pytest.raises(CancelledError):
            last.result()
        for future in futures:
            future.cancel()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised in a callback of a weak reference
def test_what_a_handler_raises_while_a_plan_is_made_leaves_nothing_locked():
    """A signal's handler may raise between any instructions, even right after a lock was taken."""

    class Alarm(Exception):
        pass

    armed = False

    def handle(number, frame):
        nonlocal armed
        if armed:
            armed = False
            raise Alarm

    network = Network("storm")
    network.output(network.softmax(network.input("x", ("N",))), "y")
    raised = 0
    delays = random.Random(0)
    before = signal.signal(signal.SIGALRM, handle)
    try:
        with Runtime(threads=1) as runtime:
            net = runtime.load(network, optimize={"backends": ["CpuRef"]}, plan_cache_bytes=0)
            end = time.monotonic() + 3
            size = 0
            while time.monotonic() < end:
                size += 1
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, delays.random() * 0.001 + 1e-6)
                    call = net.bind if size % 4 == 0 else net.run
                    call({"x": np.ones(size, np.float32)})
                    armed = False
                except Alarm:
                    raised += 1
                armed = False
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert not net._planning_lock.locked()
                assert not net._planner
                assert not net._active
                assert under_way() is None
            net.run({"x": np.ones(size + 1, np.float32)}, timeout=30)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised


@pytest.mark.parametrize("held", ["bind", "profiling", "default_runtime"])
def test_a_handler_may_use_what_its_own_thread_has_locked(held):
    """It would wait for itself for ever; a child process does it, which may be killed."""
    program = f"""
    import signal, threading
    import numpy as np
    import dovetail
    from dovetail import Network
    from dovetail.runtime import runtime as module

    class Signalling:
        # Its thread gets a signal as soon as it holds the lock.
        def __init__(self, lock):
            self.lock, self.armed = lock, True
        def __enter__(self):
            self.lock.acquire()
            if self.armed:
                self.armed = False
                signal.raise_signal(signal.SIGUSR1)
        def __exit__(self, *_):
            self.lock.release()

    network = Network("handled")
    network.output(network.relu(network.input("x", (2,))), "y")
    x = np.array([-1, 2], np.float32)
    net = module.Runtime(threads=1).load(network, optimize={{"backends": ["CpuRef"]}})
    kept, answers = [], []

    def handle(number, frame):
        if {held!r} == "default_runtime":
            answers.append(dovetail.load(network, ["CpuRef"]).run({{"x": x}})["y"])
            return
        answers.append(net.bind({{"x": x}}).run()["y"])
        block = net.profiling()
        kept.append((block, block.__enter__()))
        answers.append(net.run({{"x": x}})["y"])

    signal.signal(signal.SIGUSR1, handle)
    if {held!r} == "default_runtime":
        module._default_lock = Signalling(module._default_lock)
        runtime = module.default_runtime()
        assert runtime is module.default_runtime()
    else:
        net._state_lock = Signalling(net._state_lock)
        if {held!r} == "bind":
            answers.append(net.bind({{"x": x}}).run()["y"])
        else:
            with net.profiling() as profile:
                answers.append(net.run({{"x": x}})["y"])
            assert profile.runs == 1, profile
        net.run({{"x": x}})
        ((block, profile),) = kept
        assert profile.runs == 3, profile
        block.__exit__(None, None, None)
        net.run({{"x": x}})
        assert profile.runs == 3 and net._profile is None
    assert len(answers) == (1 if {held!r} == "default_runtime" else 3)
    for answer in answers:
        np.testing.assert_array_equal(answer, [0, 2])
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


@pytest.mark.parametrize("raises", [False, True])
def test_unloading_in_a_handler_during_a_run_is_refused(hard, raises):
    """It would wait for the run, which waits for the handler."""
    found = []

    def handle(number, frame):
        try:
            net.unload()
        except RunError as error:
            found.append(error)
            if raises:
                raise

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with Runtime(threads=1) as runtime:
            network = Network("handled")
            x = network.input("x", (1000,))
            network.output(network.add(hard.Parallel(mode="poll", work_us=500_000), x).output, "y")
            net = runtime.load(network, optimize={"backends": [hard.ParallelBackend()]})
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            if raises:
                with pytest.raises(RunError, match="from inside one of its runs"):
                    net.run({"x": np.ones(1000, np.float32)})
            else:
                net.run({"x": np.ones(1000, np.float32)})
            assert len(found) == 1
            assert net._active == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
