"""Times that the vendor's driver measures, in profiles: in front of a double of its libraries."""

import json
import os

import numpy as np
import pytest
from test_vendors_driver import OVX, X, network

import dovetail
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.ovx import printed
from dovetail_npu_vsi.ovx.places import Places

PLACES = pytest.mark.parametrize("place", ["here", "child"])
RUN = """
import time
executable = driver().load(binary(two()), CHIPS[0])
assert not executable.profile(), "nothing has run"
begin = time.monotonic()
runs(executable, nodes=2)
end = time.monotonic()
"""


@PLACES
@pytest.mark.parametrize("faults", ["takes=20000", "takes=20000 elsewhen"])
def test_the_driver_tells_how_long_the_last_run_took(scene, place, faults):
    scene(
        RUN
        + """
(one,) = executable.profile()
assert one == executable.profile()[0]
assert (one.name, one.engine) == ("", ""), one
assert "measured by the driver" in one.source and one.in_words == f"program, {one.source}"
assert 0.02 <= one.seconds < (end - begin) - 0.04, "of one run, and there were three"
assert begin + 0.04 <= one.begin <= one.begin + one.seconds <= end, (begin, one, end)
before = one.begin
runs(executable, nodes=2)
assert executable.profile()[0].begin > before + 0.04
executable.close()
assert not executable.profile() and not left(), left()
""",
        faults,
        place,
    )


@PLACES
@pytest.mark.parametrize("faults", ["untimed", "absurd", "fail=vxDirective", "fail=vxQueryGraph status=-3"])
def test_a_driver_that_does_not_measure_says_nothing_and_runs(scene, place, faults):
    scene(RUN + "assert not executable.profile()\nexecutable.close()", faults, place)


def test_a_run_that_failed_has_no_time(scene):
    scene(
        RUN
        + """
assert executable.profile()
set_faults("fail=vxWaitGraph")
assert error_of(runs, executable, nodes=2)
assert not executable.profile()
"""
    )


def test_a_child_that_dies_when_it_is_asked_costs_no_result(scene):
    scene(
        RUN
        + """
import signal
os.kill(executable._child._process.pid, signal.SIGKILL)
assert not executable.profile()
runs(executable, nodes=2)
assert executable.profile()
""",
        place="child",
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_operations_are_told_where_the_driver_prints_them(scene, unbuffered):
    """C keeps back what is printed to a file, unless Python was told not to."""
    scene(
        RUN
        + """
whole, *parts = executable.profile()
assert [(one.name, one.engine) for one in parts] == [
    ("operation 0, Double of layer 60", "NN"), ("operation 1, Double of layer 61", "TP")], parts
np.testing.assert_allclose([one.seconds for one in parts], [1e-4, 2e-4])
np.testing.assert_allclose([one.begin for one in parts], [whole.begin, whole.begin + 1e-4], rtol=0, atol=1e-7)
""",
        "prints takes=1000",
        "child",
        PYTHONUNBUFFERED=unbuffered,
    )


@pytest.mark.parametrize("isolate", ["VsiNpu", ()], ids=["isolated", "in this process"])
def test_a_profile_has_the_drivers_times(double, monkeypatch, isolate):
    monkeypatch.setenv("DOVETAIL_DOUBLE", "takes=3000")
    with dovetail.load(network(), ["VsiNpu"], options=OVX, isolate=isolate) as net:
        with net.profiling() as profile:
            for _ in range(3):
                np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
        (layer,) = (one for one in profile.layers if one.backend == "VsiNpu")
    assert layer.device_calls == 3
    assert 3e6 <= layer.device_min_ns <= layer.device_median_ns < layer.total_ns
    spans = [span for run in profile.each_run for span in run.spans]
    assert [span.name for span in spans] == ["program, measured by the driver, in the simulator"] * 3
    assert layer.device_source == spans[0].name
    for run, span in zip(profile.each_run, spans, strict=True):
        begin, end = run.times[span.step]
        assert begin <= span.begin < span.end <= end
    assert "device us" in profile.table()
    trace = json.loads(profile.to_chrome_trace())["traceEvents"]
    assert sum(event.get("cat") == "device" for event in trace) == 3


@pytest.mark.skipif(not os.environ.get("DOVETAIL_VSI_SDK"), reason="DOVETAIL_VSI_SDK names no SDK of VeriSilicon")
@pytest.mark.parametrize("level", ["0", "1"])
def test_the_simulators_times(monkeypatch, level):
    monkeypatch.setenv("VIV_VX_DEBUG_LEVEL", level)
    with dovetail.load(network(), ["VsiNpu"], options=OVX) as net:
        with net.profiling() as profile:
            for _ in range(2):
                net.run({"x": X})
        (layer,) = (one for one in profile.layers if one.backend == "VsiNpu")
    assert layer.device_source == "program, measured by the driver, in the simulator"
    assert 0 < layer.device_min_ns <= layer.device_ns < layer.total_ns
    for run in profile.each_run:
        parts = [span.name for span in run.spans[1:]]
        assert all("measured by the driver, in the simulator" in name for name in parts)
        assert any("on TP" in name for name in parts) == (level == "1"), parts


def test_a_compilation_writes_no_profile_of_the_vendors(monkeypatch):
    monkeypatch.setenv("VIV_VX_PROFILE", "1")
    for places in (Places(), Places(sdk="/opt/sdk")):
        assert "VIV_VX_PROFILE" not in places.compiling_environment(CHIPS[0])
        assert places.environment(CHIPS[0])["VIV_VX_PROFILE"] == "1"


@pytest.mark.skipif(not os.environ.get("DOVETAIL_VSI_SDK"), reason="DOVETAIL_VSI_SDK names no SDK of VeriSilicon")
def test_the_simulators_own_profile_is_of_the_run(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIV_VX_PROFILE", "1")
    monkeypatch.setenv("VP_OUTPUT", str(tmp_path / "run.vpd"))
    with dovetail.Runtime() as runtime, dovetail.load(network(), ["VsiNpu"], options=OVX, runtime=runtime) as net:
        net.run({"x": X})
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("run_")
    assert path.suffix == ".vpd"
    assert path.stat().st_size


def test_estimates_are_no_times_of_a_run():
    with dovetail.load(network(), ["VsiNpu"]) as net, net.profiling() as profile:
        net.run({"x": X})
    assert [layer.device_ns for layer in profile.layers] == [None] * len(profile.layers)


def test_what_is_printed_besides_is_no_operation():
    text = (
        "layerId=3, layer name=Softmax2Layer, layerOperationCount=1, uid=-1 target:VXNNE_OPERATION_TARGET_SH\n"
        "execution time:              3784 us\nVPC_ELAPSETIME: 3819\n"
        "layerId=4, layer name=Lost, target:VXNNE_OPERATION_TARGET_NN\nlayerId=x, layer name=,\nexecution time: us\n"
    )
    assert list(printed.operations(text)) == [("operation 0, Softmax2Layer of layer 3", "SH", 3784e-6)]
    assert not list(printed.operations(""))
    assert not list(printed.operations("layerId=" * 10_000))


def test_what_a_process_prints_is_read_if_it_goes_into_a_file(tmp_path):
    before, file = os.dup(2), os.open(tmp_path / "printed", os.O_RDWR | os.O_CREAT)
    read, write = os.pipe()
    try:
        os.dup2(file, 2)
        os.write(2, b"before")
        begin = printed.length()
        os.write(2, b"after \xff")
        assert (begin, printed.text(begin), printed.text(100)) == (6, "after \ufffd", "")
        os.dup2(write, 2)
        assert (printed.length(), printed.text(0)) == (0, "")
    finally:
        os.dup2(before, 2)
        for one in (before, file, read, write):
            os.close(one)
