"""Build the members from sdists for each newer Python found here, and smoke-test them."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

# 3.11, the floor, is tested by all other tests where it runs them.
MINORS = (12, 13)
DESCRIBE = (
    "import json, os, sys, sysconfig, venv; "
    "print(json.dumps([sys.version_info[1], os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h'))]))"
)

# One script for all checks: an environment takes a minute to build. -I: the checkout cannot answer
# in place of the build.
SMOKE = """
import sys
import threading
import numpy as np
import dovetail
from dovetail import ErrorCode

assert sys.prefix in dovetail.__file__, dovetail.__file__
assert sorted(str(row.id) for row in dovetail.backends()) == ["CpuAcc", "CpuRef", "GpuAcc", "VsiNpu"]

def refused(code, function, *arguments, **keywords):
    try:
        function(*arguments, **keywords)
    except dovetail.DovetailError as error:
        assert error.code is code, error
    else:
        raise AssertionError(f"not refused: {code}")

pictures = np.random.default_rng(7).random((12, 1, 8, 8), np.float32)
with dovetail.load(sys.argv[1], backends=["CpuRef"], threads=2) as net:
    expected = net.run({"image": pictures})["probabilities"]
    assert expected.shape == (12, 10), expected.shape
    np.testing.assert_allclose(expected.sum(axis=1), 1, rtol=1e-5)
    assert all(layer.backend == "CpuRef" for layer in net.placement.layers)

    wrong = []
    def work(number):
        for turn in range(50):
            size = 1 + (number + turn) % 4
            if not np.array_equal(net.run({"image": pictures[:size]})["probabilities"], expected[:size]):
                wrong.append((number, turn))
    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong, wrong
    np.testing.assert_array_equal(net.submit({"image": pictures}).result()["probabilities"], expected)

    binding = net.bind({"image": pictures.copy()})
    np.testing.assert_array_equal(binding.run()["probabilities"], expected)

    # 50,000 pictures take far longer than a millisecond.
    refused(ErrorCode.TIMEOUT, net.run, {"image": np.zeros((50_000, 1, 8, 8), np.float32)}, timeout=0.001)
    refused(ErrorCode.INPUT_DTYPE, net.run, {"image": pictures.astype(np.float64)})
    np.testing.assert_array_equal(net.run({"image": pictures})["probabilities"], expected)
with dovetail.load(sys.argv[1], backends=["CpuAcc"], threads=2) as fast:
    np.testing.assert_allclose(fast.run({"image": pictures})["probabilities"], expected, rtol=1e-5, atol=1e-6)
refused(ErrorCode.NETWORK_UNLOADED, net.run, {"image": pictures})
refused(ErrorCode.BACKEND_UNAVAILABLE, dovetail.load, sys.argv[1], backends=["CpuReff"])
print("smoke test passed under", sys.version.split()[0])
"""

# The template of an NPU holds no Python: its library was built once, under the Python of the tests.
NPU = """
import sys
sys.path.append(sys.argv[1])
import numpy as np
import dovetail
from dovetail import Quantization

network = dovetail.Network("sum")
operands = [network.input(name, (1, 4, 4, 8), "int8", Quantization.per_tensor(0.5, 3)) for name in "ab"]
total = network.addition(*operands, name="total")
total.quantization = Quantization.per_tensor(0.75, -2)
network.output(total, name="y")
feeds = dict(zip("ab", np.random.default_rng(3).integers(-128, 128, (2, 1, 4, 4, 8), np.int8)))
results = []
for backend in ("AcmeNpu", "CpuRef"):
    with dovetail.load(network, backends=[backend]) as net:
        results.append(net.run(feeds)["y"])
        assert [layer.backend for layer in net.placement.layers] == [backend]
np.testing.assert_array_equal(*results)
assert results[0].std() > 10
print("the NPU ran under", sys.version.split()[0])
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def candidates(name):
    """List the interpreters of a name: the one on PATH, and those behind a pyenv shim there."""
    found = shutil.which(name)
    if found is None:
        return []
    versions = Path(found).parents[1] / "versions"
    return [found, *sorted(map(str, versions.glob(f"*/bin/{name}")), reverse=True)]


def interpreter(minor):
    """Find an interpreter that runs and has its headers; skip the test if there is none."""
    reason = "is not on PATH"
    for path in candidates(f"python3.{minor}"):
        answer = subprocess.run([path, "-c", DESCRIBE], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if answer.returncode:
            reason = "does not run"
            continue
        found, has_headers = json.loads(answer.stdout)
        assert found == minor, f"{path} is Python 3.{found}"
        if has_headers:
            return path
        reason = "has no C headers"
    pytest.skip(f"python3.{minor} {reason}")


def build_requirements(members, third_party):
    """List what the build and the runs need from the index."""
    wanted = {}
    for member in members:
        for need in tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]:
            if not need.startswith("dovetail"):
                wanted[need] = None
    return [*wanted, *third_party]


@pytest.fixture(scope="module")
def quick_compilers(tmp_path_factory):
    """Compilers that optimize nothing, as variables: what is tried here needs no speed."""
    folder = tmp_path_factory.mktemp("compilers")
    for name, default in (("CC", "gcc"), ("CXX", "g++")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {os.environ.get(name) or default} "$@" -O0\n')
        script.chmod(0o755)
    return {name: folder / name for name in ("CC", "CXX")}


@pytest.mark.parametrize("minor", [minor for minor in MINORS if minor != sys.version_info[1]], ids=lambda minor: f"3.{minor}")
def test_the_members_build_and_run(
    minor, release, members, sdists, third_party, root, tmp_path, built_template, quick_compilers
):
    """Build the members from sdists in a fresh environment; use them with a Python-free library."""
    pip = importlib.metadata.version("pip")
    if minor > 11 and tuple(map(int, pip.split(".")[:2])) < (23, 1):
        pytest.skip(f"pip {pip}, of this environment, does not run on Python 3.{minor}")
    folder = tmp_path / "environment"
    release.check(interpreter(minor), "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    install = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    needs = build_requirements(members, third_party)
    release.from_index(f"wheels for Python 3.{minor} of {', '.join(needs)}", *install, "--only-binary", ":all:", *needs)
    for sdist in sdists:  # core comes first: the others need its headers
        offline = ("--no-index", "--no-deps", "--no-build-isolation")
        release.check(*install, *offline, sdist, cwd=tmp_path, DIST_EXTRA_CONFIG=release.parallel, **quick_compilers)
    model = shutil.copy(root / "examples" / "digits" / "digits.onnx", tmp_path)
    said = release.check(python, "-I", "-W", "error", "-c", SMOKE, model, cwd=tmp_path)
    assert re.search(rf"passed under 3\.{minor}\.", said), said
    listed = release.check(folder / "bin" / "dovetail", "backends", "--check", "--json", cwd=tmp_path)
    states = {row["id"]: row["state"] for row in json.loads(listed)}
    assert states.pop("GpuAcc") in {"loaded", "driver_missing", "no_device"}  # as there is an OpenCL device, or none
    assert states == {"CpuAcc": "loaded", "CpuRef": "loaded", "VsiNpu": "loaded"}
    said = release.check(python, "-I", "-W", "error", "-c", NPU, built_template("backend_npu"), cwd=tmp_path)
    assert re.search(rf"ran under 3\.{minor}\.", said), said
