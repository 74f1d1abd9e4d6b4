"""VsiNpu through the vendor's libraries, here a double: loads, artefacts, trouble, files."""

from __future__ import annotations

import gc
import shutil

import numpy as np
import pytest
from programs import tensor

import dovetail
from dovetail import BackendError, DType, ModelError, Network, Quantization, RunError
from dovetail.layers import Activation, ActivationFunction
from dovetail_npu_vsi import program as p
from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.ovx.driver import OvxDriver
from dovetail_npu_vsi.ovx.places import Places

OVX = {"VsiNpu": {"driver": "ovx"}}
X = np.arange(200, dtype=np.uint8).reshape(1, 200)


def network():
    """One function of each byte: one node of the graph."""
    net = Network("sigmoid")
    x = net.input("x", (1, 200), DType.UINT8, quantization=Quantization.per_tensor(0.05, 100))
    sigmoid = Activation(function=ActivationFunction.SIGMOID)
    net.output(net.add(sigmoid, x, name="only", quantization=Quantization.per_tensor(1 / 256)).output, "y")
    return net


@pytest.mark.parametrize("isolate", ["VsiNpu", ()], ids=["isolated", "in this process"])
def test_a_network_runs_on_it(double, isolate):
    with dovetail.load(network(), ["VsiNpu"], options=OVX, isolate=isolate) as net:
        for _ in range(3):
            np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)  # the double adds the number of nodes
        assert ("in a process of its own" in net.placement.layers[0].words) is (isolate == "VsiNpu")


def test_it_is_isolated_unless_an_sdk_has_its_libraries_in_processes_of_their_own(double, monkeypatch):
    def words():
        return dovetail.optimize(network(), backends=["VsiNpu"], options=OVX).placement.layers[0].words

    assert "in a process of its own" not in words()
    monkeypatch.delenv("DOVETAIL_VSI_SDK")
    assert "in a process of its own" in words()


def test_a_binary_that_is_kept_is_not_compiled_again(double, tmp_path):
    options = {"VsiNpu": {"driver": "ovx", "artefacts": str(tmp_path / "kept")}}
    for _ in range(2):
        with dovetail.load(network(), ["VsiNpu"], options=options) as net:
            np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
    assert double().count("vsi_nn_GenerateNBG") <= 2, "asked for the size, and then for the binary"


@pytest.mark.parametrize("order", [("VsiNpu", ()), ((), "VsiNpu")], ids=["isolated first", "in this process first"])
def test_a_store_serves_loads_of_this_process_and_isolated_ones(double, tmp_path, order):
    options = {"VsiNpu": {"driver": "ovx", "artefacts": str(tmp_path / "kept")}}
    for isolate, threads in zip((*order, *order), (2, 1, 1, 2), strict=True):
        with dovetail.load(network(), ["VsiNpu"], options=options, isolate=isolate, threads=threads) as net:
            np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
    assert len(list((tmp_path / "kept").iterdir())) == 1
    assert double().count("vsi_nn_GenerateNBG") <= 2, "asked for the size, and then for the binary"


@pytest.mark.parametrize("isolate", [(), "VsiNpu"], ids=["in this process", "isolated"])
def test_what_a_binary_holds_is_told(double, file, isolate):
    with dovetail.load(file, ["VsiNpu"], options=OVX, isolate=isolate) as net:
        assert file.stat().st_size <= net.memory.private_bytes <= 5 * file.stat().st_size + 20_000


@pytest.mark.parametrize("chip", [0, 1])
def test_a_warm_load_opens_the_device_once(double, tmp_path, monkeypatch, chip):
    monkeypatch.setenv("DOVETAIL_DOUBLE", f"target={CHIPS[chip].target}")
    options = {"VsiNpu": {"driver": "ovx", "artefacts": str(tmp_path / "kept")}}
    for opened in (2, 1):  # by the probe, whose process runs the binary, and first by the compiler too
        before = double().count("vxCreateContext") + double().count("vsi_nn_CreateContext")
        with dovetail.load(network(), [f"VsiNpu:{chip}"], options=options, isolate=()) as net:
            np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
        assert double().count("vxCreateContext") + double().count("vsi_nn_CreateContext") - before == opened


def _kept(driver):
    ((_, child),) = driver._spare
    return child


@pytest.mark.parametrize("change", ["nothing", "environment", "chip", "death"])
def test_the_process_of_the_probe_runs_the_first_binary_if_it_can(double, simulator, monkeypatch, change):
    operation = p.Requantize(name="only", inputs=(0,), output=1, low=0, high=255)
    program = p.Program("net", (tensor((4, 16)), tensor((4, 16))), (operation,), (0,), (1,))
    driver = OvxDriver(Places(sdk=str(simulator)))
    binary = driver.compile(program, CHIPS[0], lambda *_: None)
    assert driver.probe(CHIPS[1] if change == "chip" else CHIPS[0]).state == "ready"
    probed = _kept(driver)
    if change == "environment":
        monkeypatch.setenv("DOVETAIL_DOUBLE", "takes=1")
    elif change == "death":
        probed.kill()
    executables = [driver.load(binary, CHIPS[0]) for _ in range(2)]
    children = [executable._child for executable in executables]
    assert len({id(one) for one in children}) == 2
    assert (children[0] is probed) == (change == "nothing")
    assert probed._process.poll() is None or change != "nothing"
    assert change == "nothing" or probed._process.wait(5) is not None
    for executable in executables:
        executable.close()


def test_the_process_of_the_probe_ends_with_the_driver(double, simulator):
    driver = OvxDriver(Places(sdk=str(simulator)))
    driver.probe()
    process = _kept(driver)._process
    del driver
    gc.collect()
    assert process.wait(5) == 0


@pytest.mark.parametrize("fault", ["abort=vxWaitGraph", "fail=vxWaitGraph"])
def test_a_run_that_fails_is_an_error_and_the_next_one_works(double, monkeypatch, fault):
    with dovetail.load(network(), ["VsiNpu"], options=OVX, isolate=()) as net:
        np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
        monkeypatch.setenv("DOVETAIL_DOUBLE", fault)
        with dovetail.load(network(), ["VsiNpu"], options=OVX, isolate=()) as broken, pytest.raises(RunError):
            broken.run({"x": X})
        monkeypatch.delenv("DOVETAIL_DOUBLE")
        np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)


def test_a_load_has_the_libraries_that_the_environment_names_then(double, simulator, tmp_path, monkeypatch):
    other = tmp_path / "other sdk"
    shutil.copytree(simulator, other, symlinks=True)
    with dovetail.Runtime() as runtime:
        for sdk in (simulator, other):
            monkeypatch.setenv("DOVETAIL_VSI_SDK", str(sdk))
            with dovetail.load(network(), ["VsiNpu"], options=OVX, runtime=runtime) as net:
                np.testing.assert_array_equal(net.run({"x": X})["y"], X + 1)
        (other / "lib" / "libovxlib.so").unlink()
        (other / "lib" / "libOpenVX.so.1").unlink()
        (tmp_path / "third").mkdir()
        other.rename(tmp_path / "third" / "sdk")
        monkeypatch.setenv("DOVETAIL_VSI_SDK", str(tmp_path / "third" / "sdk"))
        with pytest.raises(dovetail.BackendUnavailableError, match="third/sdk/lib"):
            dovetail.load(network(), ["VsiNpu"], options=OVX, runtime=runtime)


def test_a_compiler_that_aborts_gives_its_layers_to_the_next_backend(double, monkeypatch):
    monkeypatch.setenv("DOVETAIL_DOUBLE", "abort=vsi_nn_GenerateNBG")
    with dovetail.load(network(), ["VsiNpu", "CpuRef"], options=OVX) as net:
        row = net.placement.layer("only")
        assert row.backend == "CpuRef"
        assert any("SIGABRT" in refusal.reason for refusal in row.refusals)
        net.run({"x": X})


def test_a_device_that_is_not_there_is_said_before_anything_is_compiled(double, monkeypatch):
    monkeypatch.setenv("DOVETAIL_DOUBLE", "fail=vxCreateContext")
    with dovetail.Runtime() as runtime, pytest.raises(dovetail.BackendUnavailableError) as caught:
        dovetail.load(network(), ["VsiNpu", "CpuRef"], options=OVX, runtime=runtime)
    assert caught.value.details["state"] in ("absent", "driver_missing")
    assert "vsi_nn_GenerateNBG" not in double()


# --- files of the vendor's compiler ---------------------------------------------------------------


@pytest.fixture
def file(double, simulator, tmp_path):
    """A binary of one node, for the first chip."""
    operation = p.Requantize(name="only", inputs=(0,), output=1, low=0, high=255)
    net = p.Program("net", (tensor((4, 16)), tensor((4, 16), 0.25, 7)), (operation,), (0,), (1,))
    path = tmp_path / "net.nb"
    path.write_bytes(OvxDriver(Places(sdk=str(simulator))).compile(net, CHIPS[0], lambda *_: None))
    return path


def test_a_file_runs_as_a_network_of_one_layer(file):
    x = np.arange(64, dtype=np.uint8).reshape(4, 16)
    with dovetail.load(file, ["VsiNpu"], options=OVX) as net:
        (read,), (written,) = net.inputs, net.outputs
        assert (read.name, tuple(read.shape), read.dtype) == ("input", (4, 16), DType.UINT8)
        assert (written.name, tuple(written.shape)) == ("output", (4, 16))
        np.testing.assert_array_equal(net.run({"input": x})["output"], x + 1)
    (layer,) = (one for one in dovetail.parse(file).layers if one.kind == "vsi.BinaryProgram")
    assert layer.output.known_info.quantization == Quantization.per_tensor(0.25, 7)
    with dovetail.load(file.read_bytes(), ["VsiNpu"], options=OVX) as net:
        np.testing.assert_array_equal(net.run({"input": x})["output"], x + 1)


def test_a_file_for_another_chip_is_refused_before_the_driver_sees_it(file, double):
    before = double()
    with pytest.raises(BackendError, match=r"made for chip 0x9f \(i\.MX 8M Plus\), and the device is chip 0x88 \(A311D\)"):
        dovetail.load(file, ["VsiNpu:1"], options=OVX)
    assert "vxImportKernelFromURL" not in double()[len(before) :]


def test_the_model_says_that_it_runs_no_files(file):
    with pytest.raises(dovetail.PlacementError, match='option driver="ovx"'):
        dovetail.load(file, ["VsiNpu"])


@pytest.mark.parametrize("content", [b"", b"VPMN", b"\0" * 5000, b"TFL3" * 100])
def test_what_is_no_such_file_is_a_malformed_model(tmp_path, content):
    path = tmp_path / "broken.nb"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"broken\.nb"):
        dovetail.parse(path)


def test_a_file_that_is_missing_or_a_folder_is_said_so(tmp_path):
    (tmp_path / "folder.nb").mkdir()
    for name in ("missing.nb", "folder.nb"):
        with pytest.raises(ModelError, match=name):
            dovetail.parse(tmp_path / name)
