"""Devices that are lost, fail late, hang, or have no more memory."""

import pytest


@pytest.mark.parametrize(("faults", "commands"), [("", 3), ("unified", 3)], ids=["copied", "mapped"])
def test_a_lost_device_ends_its_networks_alone_and_is_opened_again(scene, faults, commands):
    """Of the commands of a run: in, kernel, out; or kernel, mapped, unmapped."""
    scene(
        """
with load() as net, load("CpuRef") as other:
    commands = given["commands"]
    runs(net)
    for command in range(commands):
        set_faults(f"{faults} lost={command}")
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
        {"commands": commands},
    )


@pytest.mark.parametrize("is_profiled", [True, False], ids=["profiled", "plain"])
def test_a_command_that_fails_late_is_told_once(scene, is_profiled):
    scene(
        """
import contextlib
with load() as net, net.profiling() if given["is_profiled"] else contextlib.nullcontext():
    runs(net)
    for command in range(3):
        set_faults(f"late={command}")
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED and "failed on the device" in str(error), error
        set_faults("")
        runs(net)
assert of_runs()[:3] == [0, 0, 0], of_runs()
""",
        given={"is_profiled": is_profiled},
    )


@pytest.mark.parametrize("faults", ["", "unified", "unified refused"])
def test_memory_that_cannot_be_had_is_told_as_such(scene, faults):
    scene(
        """
with load():
    pass
met = 0
for buffer in range(12):
    set_faults(f"{faults} memory={buffer}")
    try:
        with load() as net:
            runs(net)
    except DovetailError as error:
        assert error.code is ErrorCode.OUT_OF_MEMORY and error.hint, error
        met += 1
    assert of_runs() == [0, 0, 0, 0], (buffer, of_runs())
    others_go_on()
assert met >= (1 if faults == "unified" else 2), met  # of memory that cannot be imported a copy is made
set_faults(faults)
with load() as net:
    runs(net)
""",
        faults,
    )


def test_deadlines_and_interrupts_end_a_run_that_waits(scene):
    scene("""
with load() as net, load("CpuRef") as other:
    runs(net)
    for command in range(3):
        set_faults(f"hang={command}")
        going_on = later(0.4, double.double_go_on)
        start = time.monotonic()
        error = error_of(net.run, feeds, timeout=0.1)
        assert error.code is ErrorCode.TIMEOUT and time.monotonic() - start < 5, error
        going_on.join()
        runs(net)

    set_faults("hang=1")
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
nothing_is_left()
assert count("violations") == 0
""")


@pytest.mark.slow
def test_a_device_that_never_comes_back_keeps_its_memory_and_nothing_else(scene):
    """The core gives up ten seconds after the deadline."""
    scene("""
net, other = load(), load("CpuRef")
runs(net)
set_faults("hang=1")
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


def test_trouble_between_chunks_ends_the_run_alone(scene):
    scene("""
cross_in_chunks()
commands = 7
with load() as net:
    runs(net)
    for command in range(commands):
        set_faults(f"late={command}")
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED, error
        set_faults("")
        runs(net)
        set_faults(f"hang={command}")
        going_on = later(0.3, double.double_go_on)
        error = error_of(net.run, feeds, timeout=0.1)
        assert error.code is ErrorCode.TIMEOUT, error
        going_on.join()
        runs(net)
    for command in range(commands):
        set_faults(f"lost={command}")
        error = error_of(net.run, feeds)
        assert error.code is ErrorCode.STEP_FAILED and "lost" in f"{error} {error.__cause__}", error
        net.unload()
        set_faults("")
        net = load()
        runs(net)
    net.unload()
    for buffer in range(12):
        set_faults(f"memory={buffer}")
        try:
            with load() as net:
                runs(net)
        except DovetailError as error:
            assert error.code is ErrorCode.OUT_OF_MEMORY, error
        assert of_runs()[:3] == [0, 0, 0], (buffer, of_runs())
assert count("violations") == 0
""")
