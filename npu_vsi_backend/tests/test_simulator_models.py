"""Trained networks on the vendor's simulator: the model of the NPU answers the same.

DOVETAIL_VSI_SDK=FOLDER names the vendor's SDK. With -s, pytest prints how long
loading took. The shader makes some take minutes, which the vendor's compiler spends in its own
preprocessor.
"""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from test_models import MODELS, NEEDED

import dovetail
from dovetail_npu_vsi.chips import CHIPS

SDK = os.environ.get("DOVETAIL_VSI_SDK", "")

pytestmark = [
    pytest.mark.skipif(not SDK, reason="DOVETAIL_VSI_SDK names no folder of VeriSilicon's SDK"),
    NEEDED,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

MOBILENET = "mobilenet_v1_0.25_128_quant/mobilenet_v1_0.25_128_quant.tflite"
LARGE = "mobilenet_v2_1.0_224_quant/mobilenet_v2_1.0_224_quantized_1_default_1.tflite"
PERSON = "person_detect/person_detect_fixed.tflite"
KEYWORDS = "mlperf_tiny/kws_ref_model.tflite"


def picture(net, number=0):
    """Return random bytes for the one input of a network, nearer to its middle with each number."""
    (spec,) = net.inputs
    low, high = spec.dtype.limits
    shape = [size if isinstance(size, int) else 1 for size in spec.shape]
    noise = np.random.default_rng(1 + number).integers(low, high + 1, shape) - low - 128
    return {spec.name: (low + 128 + noise // (1 << number)).astype(spec.dtype)}


def answered(path, chip, pictures, **options):
    """Load a network on the NPU alone, and return what it answers, and how long loading took."""
    start = time.perf_counter()
    with dovetail.load(MODELS / path, ["VsiNpu"], options={"VsiNpu": {"device": chip, **options}}) as net:
        loaded = time.perf_counter() - start
        return [next(iter(net.run(picture(net, number)).values())) for number in range(pictures)], loaded


@pytest.mark.parametrize(
    ("path", "chip", "pictures"),
    [
        (MOBILENET, CHIPS[0].name, 2),
        (MOBILENET, CHIPS[1].name, 2),
        (LARGE, CHIPS[0].name, 1),
        (LARGE, CHIPS[1].name, 1),
        (PERSON, CHIPS[0].name, 6),
        (PERSON, CHIPS[1].name, 6),
        (KEYWORDS, CHIPS[0].name, 6),
        (KEYWORDS, CHIPS[1].name, 6),
    ],
)
def test_a_network_answers_as_on_the_simulator(path, chip, pictures):
    expected, _ = answered(path, chip, pictures)
    found, loaded = answered(path, chip, pictures, driver="ovx")
    print(f"{path} for {chip}: compiled and loaded in {loaded:.2f} s", end=" ")
    np.testing.assert_array_equal(found, expected)


def test_a_compiled_network_runs_in_another_process(tmp_path):
    """MobileNet compiles, without shader, and runs; another process loads its binary."""
    options = {"driver": "ovx", "shader": False, "artefacts": str(tmp_path / "kept")}
    with dovetail.load(MODELS / MOBILENET, ["VsiNpu", "CpuRef"], options={"VsiNpu": options}) as net:
        feeds = picture(net)
        expected = net.run(feeds)
        print(*(f"{layer.backend}: {len(layer.steps)} layers" for layer in net.placement.layers), sep=", ", end=" ")
    (kept,) = (tmp_path / "kept").glob("*.artefact")
    written = kept.stat().st_ino
    np.savez(tmp_path / "in.npz", **feeds)
    code = f"""
import numpy as np
import dovetail
with dovetail.load({str(MODELS / MOBILENET)!r}, ["VsiNpu", "CpuRef"], options={{"VsiNpu": {options!r}}}) as net:
    np.savez({str(tmp_path / "out.npz")!r}, **net.run(dict(np.load({str(tmp_path / "in.npz")!r}))))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_equal(dict(found), expected)
    assert [file.stat().st_ino for file in (tmp_path / "kept").glob("*.artefact")] == [written], "compiled again"
