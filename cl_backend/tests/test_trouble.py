"""What goes wrong in drivers, by a double of libOpenCL: each trouble has its error, the host lives.

A library is opened once in a process, so that each test has a process of its own.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HEADERS = TESTS.parent / "src" / "dovetail_cl" / "driver"

# What the scenes below begin with.
PRELUDE = """
import ctypes, json, os, signal, sys, threading, time
import numpy as np
import dovetail
from dovetail import BackendUnavailableError, DovetailError, ErrorCode

feeds = {"x": np.arange(1, 25, dtype=np.float32).reshape(4, 6)}
double = ctypes.CDLL(os.environ["DOVETAIL_OPENCL_LIB"]) if os.path.exists(os.environ["DOVETAIL_OPENCL_LIB"]) else None

def count(what):
    return double.double_count(what.encode())

def of_runs():
    return [count(what) for what in ("buffer", "kernel", "event")] + [count("queue") - 1]  # one is the device's own

def network(name="net"):
    net = dovetail.Network(name)
    net.output(net.relu(net.input("x", (4, 6)), name="clamp"), "y")
    return net

def load(*backends, **more):
    return dovetail.load(network(), backends or ["GpuAcc"], **more)

def runs(net):
    np.testing.assert_array_equal(net.run(feeds)["y"], feeds["x"])

def error_of(function, *arguments, **more):
    try:
        function(*arguments, **more)
    except DovetailError as error:
        return error
    raise AssertionError("nothing was raised")

def others_go_on():
    with load("CpuRef") as other:
        runs(other)
"""


def compiled(folder, *flags):
    library = folder / "libOpenCL.so.1"
    compiler = shlex.split(os.environ.get("CC") or "cc")
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
    command = [*compiler, "-std=gnu11", "-g", "-O1", *warnings, "-shared", "-fPIC", f"-I{HEADERS}", *flags]
    source = str(TESTS / "double" / "opencl_double.c")
    subprocess.run([*command, source, "-o", str(library), "-lpthread"], check=True)
    return library


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("double"))


@pytest.fixture
def scene(double, tmp_path):
    """Run a scene in a process of its own, with faults of the double; return what it prints."""

    def play(code, faults="", library=double, **variables):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRELUDE + code],
            env={
                **os.environ,
                "DOVETAIL_OPENCL_LIB": str(library),
                "DOVETAIL_DOUBLE": faults,
                "DOVETAIL_PROBE": "off",
                "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"),
                **variables,
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return play


def test_the_double_runs_a_network_and_nothing_leaks(scene):
    scene("""
for _ in range(3):
    with load() as net:
        runs(net)
        runs(net)
        assert count("buffer") and count("kernel")
    assert of_runs() == [0, 0, 0, 0], of_runs()
assert count("context") == 1
assert count("builds") == 2  # of the least program, and of the layer's
assert count("violations") == 0
""")


@pytest.mark.parametrize("faults", ["", "no_queued"])
def test_the_device_of_the_double_tells_when_it_worked(scene, faults):
    """Its clock began an hour before the host's."""
    scene(
        """
with load() as net:
    runs(net)
    assert count("event") == 0, "nobody asked for times"
    queues = count("queue")
    sizes = (count("bytes_in"), count("bytes_out"))
    with net.profiling() as profile:
        for _ in range(3):
            runs(net)
    assert (count("bytes_in") - sizes[0], count("bytes_out") - sizes[1]) == (3 * 96, 3 * 96)
    assert count("queue") == queues + 1, "one that takes times, which is kept"
    runs(net)
    assert count("event") == 0
    for run in profile.each_run:
        assert len(run.spans) == 3, run.spans
        for span in run.spans:
            assert run.times[0][0] - 5e6 < span.begin and span.end < run.times[-1][1] + 5e6, (run.times, span)
    assert [copy.device_ns for copy in profile.copies] == [3000, 3000]
    assert net.placement.crossing == (96, 96)
assert of_runs() == [0, 0, 0, 0], of_runs()
""",
        faults,
    )


@pytest.mark.parametrize("faults", ["slow", "unified", "unified slow", "unified shadow slow", "unified refused slow"])
def test_other_devices_run_too(scene, faults):
    scene(
        """
with load() as net:
    for _ in range(20):
        runs(net)
time.sleep(0.05)  # of a driver's thread
assert of_runs() == [0, 0, 0, 0], of_runs()
""",
        faults,
    )


CROSSING = """
def copied():
    return count("bytes_in") + count("bytes_out")

x, y = feeds["x"], np.zeros((4, 6), np.float32)
with load() as net:
    crossed = int(sys.argv[1])
    assert len(net.placement.copies) == (0 if "unified" in os.environ["DOVETAIL_DOUBLE"] else 2)
    runs(net)
    for _ in range(3):
        before = copied()
        runs(net)
        assert copied() - before == crossed, (copied() - before, crossed)
    binding = net.bind({"x": x}, {"y": y})
    for turn in range(1, 4):
        x[...], y[...], before = np.arange(24).reshape(4, 6) + turn, 0, copied()
        binding.run()
        np.testing.assert_array_equal(x, y)
        assert copied() - before == crossed, (copied() - before, crossed)
    binding.close()
assert of_runs() == [0, 0, 0, 0], of_runs()
"""


@pytest.mark.parametrize(
    ("faults", "crossed"), [("unified", 0), ("unified shadow", 0), ("unified refused", 3 * 96), ("", 2 * 96)]
)
def test_no_byte_is_copied_where_memory_is_shared(scene, faults, crossed):
    """Not by a command: what a driver does for memory that it does not share itself is its own.

    Of memory that it refuses there are copies: of both tensors as they are before the run, and of
    the result.
    """
    scene(f"sys.argv.append('{crossed}')" + CROSSING, faults)


@pytest.mark.parametrize("faults", ["unified", "unified shadow", "unified refused"])
def test_inputs_overlap(scene, faults):
    """The double's kernel gives its first input."""
    scene(
        """
net = dovetail.Network("overlap")
a, b = net.input("a", (64,)), net.input("b", (64,))
net.output(net.addition(a, b), "y")
x = np.arange(1, 81, dtype=np.float32)
with dovetail.load(net, ["GpuAcc"]) as loaded:
    for first, second in ((x[:64], x[16:]), (x[16:], x[:64]), (x[:64], x[:64])):
        for turn in range(3):
            x += 1
            np.testing.assert_array_equal(loaded.run({"a": first, "b": second})["y"], first)
        binding = loaded.bind({"a": first, "b": second})
        for turn in range(3):
            x += 1
            np.testing.assert_array_equal(binding.run()["y"], first)
        binding.close()
assert of_runs() == [0, 0, 0, 0], of_runs()
""",
        faults,
    )


STAGED = """
from dovetail_cl.devices import all_facts
all_facts()[0].update(chunk=32, staged_from=1)  # bytes: three chunks each way
faults, commands = os.environ["DOVETAIL_DOUBLE"], 7
"""


@pytest.mark.parametrize("faults", ["", "slow"])
def test_large_tensors_cross_in_chunks(scene, faults):
    scene(
        STAGED
        + """
with load() as net:
    for _ in range(5):
        before = count("bytes_in"), count("bytes_out")
        runs(net)
    assert (count("bytes_in") - before[0], count("bytes_out") - before[1]) == (96, 96)
time.sleep(0.05)  # of a driver's thread
assert of_runs() == [0, 0, 0, 0], of_runs()
""",
        faults,
    )


def test_trouble_between_chunks_ends_the_run_alone(scene):
    scene(
        STAGED
        + """
with load() as net:
    runs(net)
    for command in range(commands):
        double.double_set(f"late={command}".encode())
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED, error
        double.double_set(b"")
        runs(net)
        double.double_set(f"hang={command}".encode())
        going_on = threading.Timer(0.3, double.double_go_on)
        going_on.start()
        error = error_of(net.run, feeds, timeout=0.1)
        assert error.code is ErrorCode.TIMEOUT, error
        going_on.join()
        runs(net)
    for command in range(commands):
        double.double_set(f"lost={command}".encode())
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED and "lost" in f"{error} {error.__cause__}", error
        net.unload()
        double.double_set(b"")
        net = load()
        runs(net)
    net.unload()
    for buffer in range(12):
        double.double_set(f"memory={buffer}".encode())
        try:
            with load() as net:
                runs(net)
        except DovetailError as error:
            assert error.code is ErrorCode.OUT_OF_MEMORY, error
        assert of_runs()[:3] == [0, 0, 0], (buffer, of_runs())
assert count("violations") == 0
"""
    )


UNAVAILABLE = """
error = error_of(load)
assert isinstance(error, BackendUnavailableError), error
assert error.code is ErrorCode.BACKEND_UNAVAILABLE and error.hint, error
assert error.details["state"] == sys.argv[1], error.details
assert sys.argv[2] in str(error), error
with load("GpuAcc?", "CpuRef") if sys.argv[3] == "absent" else load("CpuRef") as net:
    runs(net)
if sys.argv[3] == "absent":
    with dovetail.load(network()) as net:
        runs(net)
error = error_of(load)
assert error.details["state"] == sys.argv[1], error.details
"""


@pytest.mark.parametrize(
    ("faults", "state", "text", "when"),
    [
        ("no_platform", "driver_missing", "finds no platform", "absent"),
        ("no_device", "no_device", "none of the 1 OpenCL platforms has a device", "absent"),
        ("no_compiler", "broken", "device 'double' has no compiler", "opened"),
        ("build_error", "broken", "error: the double does not like it", "opened"),
    ],
)
def test_what_a_driver_lacks_is_told_apart(scene, faults, state, text, when):
    scene(f"sys.argv += [{state!r}, {text!r}, {when!r}]" + UNAVAILABLE, faults)


def test_a_library_that_is_missing_or_too_old_is_told_apart(scene, tmp_path):
    old = compiled(tmp_path, "-DclFlush=clFlush_of_another_name")
    for library, text in ((tmp_path / "nowhere.so", "nowhere.so"), (old, "lacks clFlush, which OpenCL 1.2 has")):
        scene(f"sys.argv += ['driver_missing', {text!r}, 'absent']" + UNAVAILABLE, library=library)


@pytest.mark.parametrize(
    ("faults", "code", "text"),
    [
        ("no_platform", "DRIVER_MISSING", "finds no platform"),
        ("no_device", "NO_DEVICE", "has a device that is available"),
        ("build_error", "UNAVAILABLE", "error: the double does not like it"),
    ],
)
def test_doctor_tells_them_apart(double, tmp_path, faults, code, text):
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "doctor", "GpuAcc", "--json"],
        env={
            **os.environ,
            "DOVETAIL_OPENCL_LIB": str(double),
            "DOVETAIL_DOUBLE": faults,
            "DOVETAIL_PROBE": "on",
            "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["code"], row["ready"]) == (code, False), row
    assert text in row["reason"]
    assert row["hint"]
    assert done.returncode == 1


@pytest.mark.parametrize(("faults", "code"), [("no_device", 0), ("build_error", 1)])
def test_a_machine_without_a_device_is_as_it_should_be(double, tmp_path, faults, code):
    """All backends come with the meta-wheel: where nobody named this one, nobody misses it."""
    done = subprocess.run(
        [sys.executable, "-m", "dovetail_sdk", "doctor"],
        env={
            **os.environ,
            "DOVETAIL_OPENCL_LIB": str(double),
            "DOVETAIL_DOUBLE": faults,
            "DOVETAIL_PROBE": "on",
            "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stdout
    assert "GpuAcc: refused" in done.stdout


def test_a_kernel_that_the_compiler_refuses_is_given_with_its_log(scene):
    scene(
        """
error = error_of(load)
assert error.code is ErrorCode.COMPILE_FAILED and error.hint, error
assert "'clamp'" in str(error) and "error: the double does not like it" in str(error), error
assert of_runs() == [0, 0, 0, 0], of_runs()
others_go_on()
double.double_set(b"")
with load() as net:
    runs(net)
""",
        "build_error=chain",
    )


@pytest.mark.parametrize(("faults", "commands"), [("", 3), ("unified", 3)], ids=["copied", "mapped"])
def test_a_lost_device_ends_its_networks_alone_and_is_opened_again(scene, faults, commands):
    """Of the commands of a run: in, kernel, out; or kernel, mapped, unmapped."""
    scene(
        f"faults, commands = {faults!r}, {commands}"
        """
with load() as net, load("CpuRef") as other:
    runs(net)
    for command in range(commands):
        double.double_set(f"{faults} lost={command}".encode())
        error = error_of(net.run, feeds)
        text = f"{error} {error.__cause__}"
        assert error.code is ErrorCode.STEP_FAILED and "lost" in text and "load the network again" in text, text
        runs(other)
        assert error_of(net.run, feeds).code is ErrorCode.STEP_FAILED
        net.unload()
        net = load()
        runs(net)
    assert count("context") == 1 + commands
    net.unload()
assert of_runs()[:3] == [0, 0, 0], of_runs()
""",
        faults,
    )


@pytest.mark.parametrize("block", ["net.profiling()", "contextlib.nullcontext()"], ids=["profiled", "plain"])
def test_a_command_that_fails_late_is_told_once(scene, block):
    scene(f"""
import contextlib
with load() as net, {block}:
    runs(net)
    for command in range(3):
        double.double_set(b"late=%d" % command)
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED and "failed on the device" in str(error), error
        double.double_set(b"")
        runs(net)
assert of_runs()[:3] == [0, 0, 0], of_runs()
""")


@pytest.mark.parametrize("faults", ["", "unified", "unified refused"])
def test_memory_that_cannot_be_had_is_told_as_such(scene, faults):
    scene(
        """
with load():
    pass
faults, met = os.environ["DOVETAIL_DOUBLE"], 0
for buffer in range(12):
    double.double_set(f"{faults} memory={buffer}".encode())
    try:
        with load() as net:
            runs(net)
    except DovetailError as error:
        assert error.code is ErrorCode.OUT_OF_MEMORY and error.hint, error
        met += 1
    assert of_runs() == [0, 0, 0, 0], (buffer, of_runs())
    others_go_on()
assert met >= (1 if faults == "unified" else 2), met  # of memory that cannot be imported a copy is made
double.double_set(faults.encode())
with load() as net:
    runs(net)
""",
        faults,
    )


def test_deadlines_and_interrupts_end_a_run_that_waits(scene):
    scene("""
def later(seconds, function):
    thread = threading.Timer(seconds, function)
    thread.start()
    return thread

with load() as net, load("CpuRef") as other:
    runs(net)
    for command in range(3):
        double.double_set(f"hang={command}".encode())
        going_on = later(0.4, double.double_go_on)
        start = time.monotonic()
        error = error_of(net.run, feeds, timeout=0.1)
        assert error.code is ErrorCode.TIMEOUT and time.monotonic() - start < 5, error
        going_on.join()
        runs(net)

    double.double_set(b"hang=1")
    timers = [later(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)), later(0.5, double.double_go_on)]
    try:
        net.run(feeds)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("Ctrl-C was lost")
    for timer in timers:
        timer.join()
    runs(other)
    runs(net)
assert of_runs() == [0, 0, 0, 0], of_runs()
assert count("violations") == 0
""")


@pytest.mark.slow
def test_a_device_that_never_comes_back_keeps_its_memory_and_nothing_else(scene):
    """The core gives up ten seconds after the deadline."""
    scene("""
net, other = load(), load("CpuRef")
runs(net)
double.double_set(b"hang=1")
error = error_of(net.run, feeds, timeout=0.1)
assert error.code is ErrorCode.TIMEOUT and "memory" in str(error), error
runs(other)
try:
    net.unload()
except DovetailError:
    pass
assert count("buffer") and count("violations") == 0
double.double_go_on()
with load() as again:
    runs(again)
""")


def test_the_hosts_handlers_stay(scene):
    scene(
        """
import faulthandler
faulthandler.enable()
mine = lambda number, frame: seen.append(number)
seen = []
signal.signal(signal.SIGUSR1, mine)
with load() as net:
    runs(net)
assert count("builds")
assert signal.getsignal(signal.SIGUSR1) is mine
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
else:
    raise AssertionError("Ctrl-C was lost")
os.kill(os.getpid(), signal.SIGUSR1)
assert seen == [signal.SIGUSR1]
""",
        "handlers",
    )


KEPT = """
import logging
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")
with load(options={"GpuAcc": {"artefacts": sys.argv[1]}}) as net:
    runs(net)
print("built", count("builds"), "restored", count("restores"))
"""


def test_a_second_process_builds_nothing(scene, tmp_path):
    code = f"sys.argv.append({str(tmp_path / 'kept')!r})" + KEPT
    (tmp_path / "kept").mkdir(mode=0o700)
    assert "built 2 restored 0" in scene(code)  # the least program, and the layer's
    assert "built 0 restored 1" in scene(code)


def test_who_listens_hears_how_many_programs_are_built_of_how_many(scene, tmp_path):
    code = (
        f"folder = {str(tmp_path / 'kept')!r}"
        + """
def heard():
    net = dovetail.Network("two")
    x = net.relu(net.input("x", (4, 6)))
    for _ in range(2):
        x = net.softmax(x, axis=1)
    net.output(x, "y")
    found = []
    with dovetail.load(net, ["GpuAcc"], options={"GpuAcc": {"artefacts": folder}}, progress=lambda *one: found.append(one)):
        pass
    return found

print(heard())
assert heard() == []
"""
    )
    (tmp_path / "kept").mkdir(mode=0o700)
    first, second = (
        f"('GpuAcc', {part}, 'builds program {n} of 2: {name}')"
        for part, n, name in ((0.0, 1, "elementwise/chain"), (0.5, 2, "reduction/softmax"))
    )
    assert scene(code) == f"[{first}, {second}]\n"
    assert scene(code) == "[]\n"


def test_another_driver_builds_anew_and_why_is_said(scene, tmp_path):
    code = f"sys.argv.append({str(tmp_path / 'kept')!r})" + KEPT
    (tmp_path / "kept").mkdir(mode=0o700)
    scene(code)
    said = scene(code, "driver=2.0")
    assert "built 2 restored 0" in said
    assert "2.0" in said
    assert "1.0" in said
    assert "built 0 restored 1" in scene(code, "driver=2.0")
    assert "built 0 restored 1" in scene(code)


def test_binaries_that_the_driver_refuses_are_built_again(scene, tmp_path):
    code = f"sys.argv.append({str(tmp_path / 'kept')!r})" + KEPT
    (tmp_path / "kept").mkdir(mode=0o700)
    scene(code)
    assert "built 1 restored 0" in scene(code, "stale")  # that the compiler works is known
    assert "built 0 restored 1" in scene(code)


def test_two_processes_share_a_folder(scene, tmp_path):
    (tmp_path / "kept").mkdir(mode=0o700)
    scene(
        f"folder = {str(tmp_path / 'kept')!r}"
        """
children = [os.fork() for _ in range(1)]  # before anything is opened
with load(options={"GpuAcc": {"artefacts": folder}}) as net:
    runs(net)
if children[0] == 0:
    os._exit(0)
assert os.waitpid(children[0], 0)[1] == 0
"""
    )


def test_a_process_that_was_forked_is_told_so(scene):
    scene("""
net = load()
runs(net)
child = os.fork()
if child == 0:
    try:
        assert error_of(net.run, feeds).code is ErrorCode.FORKED
        error = error_of(load)
        assert error.code is ErrorCode.FORKED and "spawn" in error.hint, error
        others_go_on()
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
runs(net)
net.unload()
assert of_runs() == [0, 0, 0, 0], of_runs()
""")
