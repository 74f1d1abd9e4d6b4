"""The driver of the vendor's libraries in front of a double; each scene is a process of its own."""

import pytest

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
