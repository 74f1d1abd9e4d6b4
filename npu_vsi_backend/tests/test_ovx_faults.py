"""The vendor's libraries, here a double, fail, abort, hang, or are other versions."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).parents[1] / "src" / "dovetail_npu_vsi" / "ovx"
RELEASES = re.compile(r"vx\w*Release\w+|vsi_nn_(Release|GetVersion)\w+")
PLACES = pytest.mark.parametrize("place", ["here", "child"])


def functions(header):
    """The names of a header's table whose failures can be told: releases have none that matter."""
    text = (HEADERS / header).read_text()
    names = re.findall(r"F\([^,]+, (\w+),", text)
    return [name for name in names if not RELEASES.fullmatch(name)]


SURVIVED = {"vxQueryContext", "vxQueryHardwareCaps", "vxSwapTensorHandle", "vxDirective", "vxQueryGraph"}


@pytest.mark.parametrize("function", functions("ovxlib.h"))
def test_each_function_that_compiles_may_fail(scene, function):
    scene(
        """
error = error_of(binary)
assert "compiling 'net': " in str(error), error
assert not left(), left()
set_faults("")
binary()
assert not left(), left()
""",
        f"fail={function}",
    )


@pytest.mark.parametrize("place", ["here", "child"])
def test_each_function_that_runs_may_fail(scene, place):
    names = functions("openvx.h")
    assert len(names) > 20
    if place == "child":
        names = ["vxImportKernelFromURL", "vxVerifyGraph", "vxFlushHandle", "vxWaitGraph"]
    scene(
        f"""
made = binary()
def all_of_it():
    executable = driver().load(made, CHIPS[0])
    try:
        runs(executable)
    finally:
        executable.close()
for name in {names!r}:
    set_faults("fail=" + name)
    if name in {SURVIVED!r}:
        all_of_it()
    else:
        error_of(all_of_it)
    assert not left(), (name, left())
    set_faults("")
    all_of_it()
    assert not left(), (name, left())
""",
        place=place,
    )


def test_a_swap_that_fails_once_is_no_failure(scene):
    """The operand is copied then; that it lies in its own memory again is asked of the driver."""
    scene(
        """
executable = driver().load(binary(), CHIPS[0])
set_faults("fail=vxSwapTensorHandle")
runs(executable)
set_faults("")
runs(executable)
set_faults("fail=vxSwapTensorHandle")
assert "VX_FAILURE" in str(error_of(runs, executable, beyond=8))
"""
    )


@PLACES
@pytest.mark.parametrize(("status", "name", "code"), [(-8, "VX_ERROR_NO_MEMORY", "OUT_OF_MEMORY"), (-1001, "CANCEL", "BROKEN")])
def test_a_status_is_given_by_its_name(scene, place, status, name, code):
    scene(
        f"""
executable = driver().load(binary(), CHIPS[0])
set_faults("fail=vxWaitGraph status={status}")
if {place == "child"}:
    executable = driver().load(binary(), CHIPS[0])
error = error_of(runs, executable)
assert {name!r} in str(error) and {code!r} in error.code, error
""",
        place=place,
    )


@pytest.mark.parametrize("version", ["1.1.26", "1.1.87", "1.3.0", "2.0.0"])
def test_an_unknown_version_is_refused(scene, version):
    scene(
        f"""
error = error_of(binary)
assert {version!r} in str(error) and "1.1.88" in str(error) and error.hint, error
found = driver().probe()
assert found.state == "driver_missing" and {version!r} in found.problem, found
assert not calls()["vsi_nn_CreateContext"]
""",
        f"version={version}",
    )


@pytest.mark.parametrize("version", ["1.1.88", "1.2.0", "1.2.99"])
def test_known_versions_compile(scene, version):
    scene("runs(driver().load(binary(), CHIPS[0]))", f"version={version}")


@pytest.mark.parametrize(
    ("faults", "function"),
    [("layout", "binary"), ("layout=nodes", "binary"), ("wide", "driver().load, made, CHIPS[0]")],
)
def test_other_layouts_are_refused(scene, faults, function):
    scene(
        f"""
made = binary()
set_faults({faults!r})
error = error_of({function})
assert "otherwise than" in str(error), error
assert not left(), left()
"""
    )


def test_missing_libraries_are_named(scene):
    scene(
        """
made = binary()
from dovetail_npu_vsi.ovx.driver import OvxDriver
used = OvxDriver(Places(ovxlib="/missing/one.so", openvx="/missing/two.so", device=os.devnull))
for error in (error_of(used.load, made, CHIPS[0]), error_of(used.compile, one(), CHIPS[0], lambda *_: None)):
    assert error.code == "BACKEND_UNAVAILABLE" and "DOVETAIL_VSI_SDK" in error.hint and "/missing/two.so" in str(error), error
found = used.probe()
assert found.state == "driver_missing" and "/missing/" in found.problem, found
"""
    )


def test_a_library_without_a_function_is_refused(scene, tmp_path):
    source, library = tmp_path / "empty.c", tmp_path / "empty.so"
    source.write_text("int nothing;\n")
    subprocess.run(
        [*shlex.split(os.environ.get("CC") or "cc"), "-shared", "-fPIC", str(source), "-o", str(library)], check=True
    )
    scene(
        """
error = error_of(binary)
assert "empty.so lacks the function vxCreateContext" in str(error), error
""",
        SCENE_LIBRARY=str(library),
    )


# -- what ends or stops the process that the libraries are in ------------------------------------


@pytest.mark.parametrize("function", ["vsi_nn_CreateContext", "vsi_nn_SetupGraph", "vsi_nn_GenerateNBG"])
@PLACES
def test_a_compiler_that_aborts_is_an_error(scene, place, function):
    scene(
        f"""
error = error_of(binary)
assert "SIGABRT" in str(error) and "the double ends in {function}" in str(error) and "'net'" in str(error), error
set_faults("")
runs(driver().load(binary(), CHIPS[0]))
""",
        f"abort={function}",
        place,
    )


@PLACES
def test_a_compiler_that_hangs_is_ended(scene, place):
    scene(
        """
import time
begun = time.monotonic()
error = error_of(driver(compile_seconds=2.0).compile, one(), CHIPS[0], lambda *_: None)
assert error.code == "TIMEOUT" and "2 seconds" in str(error), error
assert 2 <= time.monotonic() - begun < 10
check_no_child_is_left()
""",
        "hang=vsi_nn_GenerateNBG",
        place,
    )


@pytest.mark.parametrize("function", ["vxCreateContext", "vxVerifyGraph", "vxScheduleGraph", "vxWaitGraph"])
@pytest.mark.parametrize("fault", ["abort", "hang"])
def test_a_simulator_that_fails_leaves_the_process(scene, fault, function):
    scene(
        f"""
made = binary()
def all_of_it():
    executable = driver(run_seconds=2.0).load(made, CHIPS[0])
    try:
        runs(executable)
    finally:
        executable.close()
set_faults("{fault}={function}")
error = error_of(all_of_it)
assert ("SIGABRT" if "{fault}" == "abort" else "2 seconds") in str(error), error
set_faults("")
all_of_it()
""",
        place="child",
    )


@pytest.mark.parametrize("fault", ["abort", "hang"])
def test_a_run_that_fails_is_not_the_last(scene, fault):
    """A process is started again for the next."""
    scene(
        f"""
made = binary()
set_faults("{fault}=vxWaitGraph")
executable = driver(run_seconds=2.0).load(made, CHIPS[0])
set_faults("")
error_of(runs, executable)
runs(executable)
executable.close()
assert sum("vxCreateContext" == line for line in log()) == 2
""",
        place="child",
    )


def test_a_run_in_a_child_is_cancelled(scene):
    scene(
        """
import time
made = binary()
set_faults("hang=vxWaitGraph")
executable = driver().load(made, CHIPS[0])
set_faults("")
arrays = [aligned(64), aligned(64)]
executable.bind([array.ctypes.data for array in arrays])
executable.submit()
begun, asked = time.monotonic(), []
executable.wait(lambda: asked.append(1) or len(asked) > 20)
assert time.monotonic() - begun < 5
runs(executable)
executable.close()
""",
        place="child",
    )


def test_a_process_that_takes_long_to_start_again_is_cancelled(scene):
    scene(
        """
import time
executable = driver().load(binary(), CHIPS[0])
executable._child.kill()
set_faults("hang=vxVerifyGraph")
arrays = [aligned(64), aligned(64)]
executable.bind([array.ctypes.data for array in arrays])
begun, asked = time.monotonic(), []
executable.submit()
executable.wait(lambda: asked.append(1) or len(asked) > 20)
assert time.monotonic() - begun < 5
set_faults("")
runs(executable)
executable.close()
""",
        place="child",
    )


def test_a_process_that_is_gone_before_a_run_is_replaced(scene):
    scene(
        """
import signal
executable = driver().load(binary(), CHIPS[0])
for _ in range(2):
    runs(executable)
    before = executable._child._process
    os.kill(before.pid, signal.SIGKILL)
    before.wait()
runs(executable)
executable.close()
assert sum("vxCreateContext" == line for line in log()) == 3
""",
        place="child",
    )


@pytest.mark.parametrize("function", ["vsi_nn_GenerateNBG", "vxVerifyGraph", "vxCreateContext"])
def test_a_load_ends_at_its_limit_whatever_hangs(scene, function):
    """Loads, probes and compilations alike look at the time while a child works."""
    scene(
        f"""
import time
from dovetail import LoadTimeoutError
from dovetail.ground.limits import Limits, limited
made = binary()
set_faults("hang={function}")
begun = time.monotonic()
def all_of_it():
    driver().probe()
    driver().load(made, CHIPS[0]).close()
    binary()
try:
    with limited(Limits(seconds=1.0)):
        all_of_it()
except LoadTimeoutError:
    pass
else:
    raise AssertionError("it went on")
assert 1 <= time.monotonic() - begun < 5
check_no_child_is_left()
""",
        place="child",
    )


def test_a_report_that_raises_ends_compiling(scene):
    scene(
        """
def report(fraction, text):
    if fraction:
        raise KeyboardInterrupt
try:
    driver().compile(one(), CHIPS[0], report)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("it went on")
"""
    )


def test_a_forked_process_cannot_use_the_device(scene):
    scene(
        """
executable = driver().load(binary(), CHIPS[0])
runs(executable)
child = os.fork()
if not child:
    error = error_of(runs, executable)
    executable.close()
    os._exit(0 if "forked" in str(error) and error.hint else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
runs(executable)
executable.close()
assert not left(), left()
"""
    )


def test_a_forked_process_starts_a_process_of_its_own(scene):
    """Both would speak with one, and read each other's answers."""
    scene(
        """
executable = driver().load(binary(), CHIPS[0])
runs(executable)
parents = executable._child._process.pid
child = os.fork()
if not child:
    code = 1
    try:
        runs(executable)
        code = 2 if executable._child._process.pid == parents else 0
        executable.close()
    finally:
        os._exit(code)
runs(executable)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
runs(executable)
assert executable._child._process.pid == parents
executable.close()
""",
        place="child",
    )


# -- chips ---------------------------------------------------------------------------------------
