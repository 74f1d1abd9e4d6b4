"""Libraries and drivers that are missing, too old, without a device, or broken."""

import json

import pytest

UNAVAILABLE = """
error = error_of(load)
assert isinstance(error, BackendUnavailableError), error
assert error.code is ErrorCode.BACKEND_UNAVAILABLE and error.hint, error
assert error.details["state"] == given["state"], error.details
assert given["text"] in str(error), error
with load("GpuAcc?", "CpuRef") if given["is_absent"] else load("CpuRef") as net:
    runs(net)
if given["is_absent"]:
    with dovetail.load(network()) as net:
        runs(net)
error = error_of(load)
assert error.details["state"] == given["state"], error.details
"""


@pytest.mark.parametrize(
    ("faults", "state", "text", "is_absent"),
    [
        ("no_platform", "driver_missing", "finds no platform", True),
        ("no_device", "no_device", "none of the 1 OpenCL platforms has a device", True),
        ("no_compiler", "broken", "device 'double' has no compiler", False),
        ("build_error", "broken", "error: the double does not like it", False),
    ],
)
def test_what_a_driver_lacks_is_told_apart(scene, faults, state, text, is_absent):
    scene(UNAVAILABLE, faults, {"state": state, "text": text, "is_absent": is_absent})


def test_a_library_that_is_missing_or_too_old_is_told_apart(scene, compiled, tmp_path):
    old = compiled("double", tmp_path / "old.so", "-DclFlush=clFlush_of_another_name")
    for library, text in ((tmp_path / "nowhere.so", "nowhere.so"), (old, "lacks clFlush, which OpenCL 1.2 has")):
        scene(UNAVAILABLE, given={"state": "driver_missing", "text": text, "is_absent": True}, library=library)


@pytest.mark.parametrize(
    ("faults", "code", "text"),
    [
        ("no_platform", "DRIVER_MISSING", "finds no platform"),
        ("no_device", "NO_DEVICE", "has a device that is available"),
        ("build_error", "UNAVAILABLE", "error: the double does not like it"),
    ],
)
def test_doctor_tells_them_apart(doctor, faults, code, text):
    done = doctor("GpuAcc", "--json", faults=faults)
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["code"], row["ready"]) == (code, False), row
    assert text in row["reason"]
    assert row["hint"]
    assert done.returncode == 1


@pytest.mark.parametrize(("faults", "code"), [("no_device", 0), ("build_error", 1)])
def test_a_machine_without_a_device_is_as_it_should_be(doctor, faults, code):
    """All backends come with the meta-wheel: where nobody named this one, nobody misses it."""
    done = doctor(faults=faults)
    assert done.returncode == code, done.stdout
    assert "GpuAcc: refused" in done.stdout
