"""The driver of the vendor's libraries in front of a double; each scene is a process of its own."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DOUBLE = TESTS / "ovx_double"
HEADERS = TESTS.parent / "src" / "dovetail_npu_vsi" / "ovx"
RELEASES = re.compile(r"vx\w*Release\w+|vsi_nn_(Release|GetVersion)\w+")


def functions(header):
    """The names of a header's table whose failures can be told: releases have none that matter."""
    text = (HEADERS / header).read_text()
    names = re.findall(r"F\([^,]+, (\w+),", text)
    return [name for name in names if not RELEASES.fullmatch(name)]


@pytest.fixture
def scene(library, sdk, tmp_path):
    """A function that runs a scene with faults; `place` is "here", or "child" with an SDK."""

    def scene(code, faults="", place="here", **variables):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", f"from scene import *\n{code}"],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(DOUBLE), os.environ.get("PYTHONPATH")])),
                "DOVETAIL_DOUBLE": faults,
                "DOVETAIL_DOUBLE_LOG": str(tmp_path / "log"),
                "SCENE_LIBRARY": str(library),
                "SCENE_SDK": str(sdk) if place == "child" else "",
                **variables,
            },
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return scene


PLACES = pytest.mark.parametrize("place", ["here", "child"])


@PLACES
@pytest.mark.parametrize("faults", ["", "short", "silent", "far"])
def test_programs_are_compiled_and_run(scene, place, faults):
    scene(
        """
executable = driver().load(binary(two()), CHIPS[0])
assert [(one.shape, one.dtype, one.scale, one.zero_point) for one in (*executable.inputs, *executable.outputs)] == (
    [((4, 16), "uint8", 0.5, 100)] * 4), executable.inputs
for beyond in (0, 1, 32, 0):
    runs(executable, nodes=2, beyond=beyond)
executable.close()
executable.close()
assert not left(), left()
assert "closed" in str(error_of(executable.submit))
""",
        faults,
        place,
    )


def test_operands_lie_in_bound_memory_if_they_can(scene):
    """What is aligned, and a multiple of 64 bytes long, is given to the device as it is."""
    scene(
        """
even, odd = (driver().load(binary(one(x=shape)), CHIPS[0]) for shape in ((4, 16), (3, 5)))
runs(even)
assert calls()["vxSwapTensorHandle"] == 2
runs(even, beyond=8)
assert calls()["vxSwapTensorHandle"] == 4
for beyond in (0, 8):
    runs(odd, beyond=beyond)
assert calls()["vxSwapTensorHandle"] == 4
"""
    )


def test_operands_are_copied_where_no_memory_is_to_be_shared(scene):
    scene(
        """
executable = driver(shares_memory=False).load(binary(), CHIPS[0])
runs(executable)
assert not calls()["vxSwapTensorHandle"]
"""
    )


def test_many_executables_share_the_device(scene):
    scene(
        """
used = driver()
executables = [used.load(binary(), CHIPS[0]) for _ in range(5)]
for executable in executables:
    runs(executable)
assert calls()["vxCreateContext"] == 1
for executable in executables:
    executable.close()
assert not left(), left()
"""
    )


# What a driver may do without: its name, and memory of the caller's instead of a copy.
SURVIVED = {"vxQueryContext", "vxQueryHardwareCaps", "vxSwapTensorHandle"}


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
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    pass
else:
    raise AssertionError("a child process is left")
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


# -- chips ---------------------------------------------------------------------------------------


@PLACES
def test_a_binary_for_another_chip_does_not_reach_the_driver(scene, place):
    scene(
        """
made = binary()
error = error_of(driver().load, made, CHIPS[1])
assert "0x9f (i.MX 8M Plus)" in str(error) and "0x88 (A311D)" in str(error), error
set_faults("target=0x88")
error = error_of(driver().load, made, CHIPS[0])
assert "0x9f (i.MX 8M Plus)" in str(error) and "0x88 (A311D)" in str(error), error
assert not calls()["vxImportKernelFromURL"]
""",
        place=place,
    )


def test_a_damaged_binary_does_not_reach_the_driver(scene):
    scene(
        """
made = bytearray(binary())
made[-1] ^= 1
assert "checksum" in str(error_of(driver().load, bytes(made), CHIPS[0]))
assert "0 bytes" in str(error_of(driver().load, b"", CHIPS[0]))
assert not calls()["vxCreateContext"]
"""
    )


def test_a_board_compiles_for_its_own_chip_alone(scene):
    scene(
        """
error = error_of(binary)
assert "0x88 (A311D)" in str(error) and "0x9f (i.MX 8M Plus)" in str(error) and error.code == "COMPILE_FAILED", error
""",
        "makes=0x88",
    )


def test_a_binary_larger_than_announced_is_an_error(scene):
    scene("assert 'announced' in str(error_of(binary))\nassert not left(), left()", "overflow")


# -- probing -------------------------------------------------------------------------------------


@PLACES
def test_a_device_that_is_there_is_ready(scene, place):
    scene(
        """
found = driver().probe()
assert found.state == "ready" and found.chip == 0x88, found
assert found.versions == {"openvx": "Double 1.3", "ovxlib": "1.2.30"}, found
""",
        "target=0x88",
        place,
    )


def test_a_board_is_known_by_its_device_tree(scene, tmp_path):
    (tmp_path / "compatible").write_bytes(b"nxp,some-board\0fsl,imx8mp\0")
    scene(
        f"""
from dovetail_npu_vsi.ovx.driver import OvxDriver
found = OvxDriver(Places(device="/missing", device_tree={str(tmp_path / "compatible")!r})).probe()
assert found.state == "absent" and "/missing" in found.problem and found.chip == 0x9F, found
found = OvxDriver(Places(device="/missing", device_tree="/missing")).probe()
assert found.state == "absent" and found.chip is None, found
"""
    )


@pytest.mark.parametrize(("number", "state"), [("EBUSY", "busy"), ("EACCES", "absent"), ("ENXIO", "absent")])
def test_a_device_that_cannot_be_opened_says_why(scene, number, state):
    scene(
        f"""
import errno
def refused(*_):
    raise OSError(errno.{number}, os.strerror(errno.{number}))
os.open = refused
found = driver().probe()
assert found.state == {state!r} and os.devnull in found.problem, found
"""
    )


@pytest.mark.parametrize(("faults", "words"), [("abort=vxCreateContext", "SIGABRT"), ("fail=vxCreateContext", "/dev/galcore")])
def test_a_driver_that_fails_is_not_ready(scene, faults, words):
    scene(f"found = driver().probe()\nassert found.state != 'ready' and {words!r} in found.problem, found", faults)


# -- what becomes of operations ------------------------------------------------------------------

IMAGE = "(1, 8, 12, 16)"
PLAIN = "stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1)"
NODES = {
    "convolution": (
        "one(Convolution, (1, 4, 9, 11), (1, 8, 5, 4), weights=weights((8, 4, 3, 5)), stride=(2, 3), padding=(1, 3, 2, 4), "
        "dilation=(1, 2), groups=1)",
        ["node 2 of 0: 0,2,3 to 1 kernel 5,3 stride 3,2 pad 3,4,1,2 dilation 2,1 weights 8 group 1 multiplier 0"],
    ),
    "depthwise": (
        f"one(Convolution, {IMAGE}, (1, 8, 10, 14), weights=weights((8, 1, 3, 3)), {PLAIN}, groups=8)",
        [
            "tensor 2 3x3x8x1 type 3 quantized 2 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,3 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "groups": (
        f"one(Convolution, {IMAGE}, {IMAGE}, weights=weights((8, 4, 1, 1), 8), {PLAIN}, groups=2)",
        [
            "tensor 2 1x1x4x8 type 2 quantized 3 virtual 0 constant 1",
            "tensor 3 8 type 6 quantized 3 virtual 0 constant 1",
            "node 105 of 0: 0,2,3 to 1 kernel 1,1 stride 1,1 pad 0,0,0,0 dilation 1,1 weights 8 group 2 multiplier 0",
        ],
    ),
    "relu": (
        "one(FullyConnected, (2, 8), (2, 4), weights=weights((4, 8)), low=100)",
        ["node 28 of 0: 0,2,3 to 4", "node 22 of 0: 4 to 1"],
    ),
    "relu6": ("one(low=100, high=112)", ["node 48 of 0: 0 to 2", "node 35 of 0: 2 to 1"]),
    "clamp": (
        "one(low=90, high=110)",
        [
            "tensor 4 1x1 type 3 quantized 2 virtual 0 constant 1",
            "node 48 of 0: 0 to 2",
            "node 31 of 0: 2,4 to 3",
            "node 75 of 0: 3,5 to 1",
        ],
    ),
    "clamp below": ("one(low=90)", ["node 48 of 0: 0 to 2", "node 31 of 0: 2,3 to 1"]),
    "clamp above": ("one(high=110)", ["node 48 of 0: 0 to 2", "node 75 of 0: 2,3 to 1"]),
    "max": (
        "one(Pooling, (1, 8, 9, 9), (1, 8, 4, 3), function='max', size=(2, 3), stride=(2, 3), padding=(0, 1, 1, 2), "
        "count_padding=False)",
        ["node 8 of 0: 0 to 1 type 0x1b000 kernel 3,2 stride 3,2 pad 1,2,0,1"],
    ),
    "average": (
        "one(Pooling, (1, 8, 8, 8), function='average', size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), count_padding=False)",
        ["node 8 of 0: 0 to 1 type 0x71b001 kernel 3,3 stride 1,1 pad 1,1,1,1"],
    ),
    "average of all": (
        "one(Pooling, (1, 8, 8, 8), function='average', size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), count_padding=True)",
        ["node 8 of 0: 0 to 1 type 0x1b001 kernel 3,3 stride 1,1 pad 1,1,1,1"],
    ),
    "softmax": ("one(Softmax, (2, 3, 4, 5), axis=1, beta=2.0)", ["node 7 of 0: 0 to 1 beta 2 axis 2"]),
    "concat": (
        "one(Concat, tensors=(Tensor('a', (1, 3, 4), 'uint8', 0.5, 100), Tensor('b', (1, 2, 4), 'uint8', 0.25, 100), "
        "Tensor('y', (1, 5, 4), 'uint8', 0.5, 100)), axis=1)",
        ["node 48 of 0: 1 to 3", "node 11 of 0: 0,3 to 2 axis 1"],
    ),
    "depthwise with zeros between its weights": (
        f"one(Convolution, {IMAGE}, (1, 8, 4, 7), weights=weights((8, 1, 3, 3)), stride=(2, 2), padding=(0, 0, 0, 0), "
        "dilation=(2, 1), groups=8)",
        [
            "tensor 2 3x5x8x1 type 3 quantized 2 virtual 0 constant 1",
            "node 2 of 0: 0,2,3 to 1 kernel 3,5 stride 2,2 pad 0,0,0,0 dilation 1,1 weights 8 group 8 multiplier 1",
        ],
    ),
    "pad with negative numbers": (
        "one(Pad, (4, 5), (5, 8), before=(1, 0), after=(0, 3), value=99)",
        [
            "tensor 2 5x1 type 3 quantized 2 virtual 0 constant 1",
            "node 11 of 0: 2,0 to 3 axis 1",
            "tensor 4 3x5 type 3 quantized 2 virtual 0 constant 1",
            "node 11 of 0: 3,4 to 1 axis 0",
        ],
    ),
    "scalar": ("one(Reshape, (1, 1), ())", ["node 162 of 0: 0 to 1 size 1,0 of 1"]),
    "pad": (
        "one(Pad, (4, 5), (5, 8), before=(1, 0), after=(0, 3), value=104)",
        ["node 165 of 0: 0 to 1 front 0,1 back 3,0 of 2 value 2"],
    ),
    "permute": ("one(Permute, (2, 3, 4, 5), (2, 4, 5, 3), order=(0, 2, 3, 1))", ["node 19 of 0: 0 to 1 order 2,0,1,3"]),
    "reshape": ("one(Reshape, (4, 6), (3, 8))", ["node 162 of 0: 0 to 1 size 8,3 of 2"]),
    "resize": (
        "one(Resize, (1, 8, 4, 6), (1, 8, 12, 6), mode='bilinear', align_corners=True, half_pixel=False)",
        ["node 44 of 0: 0 to 1 type 1 size 6,12 corners 1 half 0"],
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_operations_become_nodes(scene, name):
    """Sizes, windows and axes are listed backwards there."""
    program, lines = NODES[name]
    scene(
        f"""
binary({program})
for line in {lines!r}:
    assert line in log(), (line, [line for line in log() if line[0] in "nt"])
assert sum(line.startswith("node ") for line in log()) == sum(line.startswith("node ") for line in {lines!r})
assert not left(), left()
"""
    )


REFUSED = {
    f"one(Convolution, {IMAGE}, (1, 8, 9, 9), weights=weights((8, 1, 2, 2)), stride=(1, 1), padding=(2000, 2000, 2000, 2000), "
    "dilation=(2000, 2000), groups=8)": "32032008",
    "one(Binary, tensors=(Tensor('x', (4,), 'uint8', 0.5, 1), Tensor('y', (4,), 'uint8', 0.5, 1)), inputs=(0, 0), "
    "function='add')": "with itself",
    "one(Function, function='shrink', alpha=1.0, beta=1.0)": "'shrink'",
    "one(x=(1,) * 7)": "7 axes",
    "one(x=(4, 0))": "without elements",
    "one(tensors=(Tensor('x', (4,), 'int8', 0.5, 1), Tensor('y', (4,), 'uint8', 0.5, 1)))": "'x' of int8",
    "one(Pooling, (8, 8, 8), function='max', size=(2, 2), stride=(1, 1), padding=(0, 0, 0, 0), count_padding=False)": "3 axes",
    "one(Resize, (1, 8, 4, 6), (1, 8, 6, 9), mode='bilinear', align_corners=False, half_pixel=True)": "4x6 to 6x9",
}


@pytest.mark.parametrize("program", REFUSED)
def test_what_ovxlib_cannot_do_is_refused_in_words(scene, program):
    scene(
        f"""
program = {program}
why = driver().refusal(program.operations[0], program, CHIPS[0])
assert {REFUSED[program]!r} in why, why
assert why in str(error_of(binary, program))
assert not calls()["vsi_nn_SetupGraph"]
"""
    )
