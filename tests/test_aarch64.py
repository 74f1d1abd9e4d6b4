"""Import, run and prove cross-built AArch64 members in an emulated Python."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib

import numpy as np
import pytest

# The backends that are proven here, and checks that touch each part of one in little time;
# CONTRIBUTING.md has the whole level.
BACKENDS = ("CpuRef", "CpuAcc", "VsiNpu")
FLOATS = ("CpuRef", "CpuAcc")
"""Those that compute in floats: VsiNpu takes quantized networks alone."""
WITHOUT_DRIVER = ("GpuAcc",)
"""Those whose devices are not emulated: they are built and imported, and say what is missing."""
CHECKS = (
    *("identity", "supports_answers", "workloads_are_fresh", "networks_are_apart"),
    *("Convolution2d", "FullyConnected", "Pooling", "Softmax", ".Quantize]"),
)

IMPORT_ALL = """
import importlib, pathlib, platform, sys
import numpy
for package in sys.argv[1:]:
    folder = pathlib.Path(importlib.import_module(package).__file__).parent
    for path in folder.rglob("*.cpython-*.so"):
        assert "aarch64" in path.name, path
        importlib.import_module(".".join([*path.parent.relative_to(folder.parent).parts, path.name.partition(".")[0]]))
        print(path.name)
print("imported on", platform.machine())
"""

# Written to a file as bytes: the results must be the same to the last bit.
DIGITS = """
import sys
import numpy as np
import dovetail

pictures = np.random.default_rng(7).random((12, 1, 8, 8), np.float32)
with dovetail.load(sys.argv[1], backends=[sys.argv[2]], threads=2) as net:
    probabilities = net.run({"image": pictures})["probabilities"]
    assert any(layer.backend == sys.argv[2] for layer in net.placement.layers)
probabilities.tofile(sys.argv[3])
"""

# Integers are summed up exactly, and what follows is not fused: the same bits on any machine, with
# dot products and without.
QUANTIZED = """
import sys
import numpy as np
import dovetail
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, ElementwiseBinary
from dovetail import DType, Quantization

random = np.random.default_rng(3)
network, image, narrow = dovetail.Network("quantized"), Quantization.per_tensor(0.05, -3), Quantization.per_tensor(0.9, 4)

def stored(*shape):
    return network.constant(random.integers(-127, 128, shape).astype(np.int8), quantization=Quantization.per_tensor(0.01))

x = network.input("x", (1, 40, 9, 9), DType.INT8, image)
wide = network.add(Convolution2d(padding=(1, 1, 1, 1)), x, stored(72, 40, 3, 3), None, quantization=narrow).output
deep = network.add(DepthwiseConvolution2d(padding=(1, 1, 1, 1)), wide, stored(72, 1, 3, 3), None, quantization=narrow).output
back = network.add(Convolution2d(), deep, stored(40, 72, 1, 1), None, quantization=narrow).output
network.output(network.add(ElementwiseBinary(operation="add"), x, back, quantization=narrow).output, "y")
feed = random.integers(-128, 128, (1, 40, 9, 9)).astype(np.int8)
options = {"CpuAcc": {"dot_products": sys.argv[1] == "dots"}}
with dovetail.load(network, backends=["CpuAcc"], threads=2, options=options) as net:
    net.run({"x": feed})["y"].tofile(sys.argv[2])
"""


@pytest.fixture(scope="module")
def tool(root):
    """The module behind `dev.py aarch64`."""
    spec = importlib.util.spec_from_file_location("aarch64", root / "tools" / "aarch64.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def emulated(release, tool):
    """A function that runs the emulated Python and returns its output; members are built before."""
    reason = tool.missing()
    if reason:
        pytest.skip(reason)
    command = [sys.executable, tool.__file__, "--version"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode and "'aarch64: fetching " in done.stderr and not os.environ.get("CI"):
        pytest.skip(f"an arm64 Python cannot be had; is the index out of reach? {done.stdout[-300:]}")
    assert done.returncode == 0, done.stdout + done.stderr

    def run(*words, **variables):
        return release.check(tool.PYTHON, *words, **variables)

    return run


slow = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.mark.parametrize(
    ("absent", "sentence"),
    [
        ({"qemu-aarch64-static"}, "qemu-aarch64-static cannot be found; apt-get install qemu-user-static and start"),
        (
            {"aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"},
            "cannot be found; apt-get install g++-aarch64-linux-gnu and start",
        ),
    ],
    ids=["emulator", "compiler"],
)
def test_what_is_missing_is_said_in_one_sentence(tool, monkeypatch, capsys, absent, sentence):
    monkeypatch.setattr(tool.platform, "freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr(tool.shutil, "which", lambda name: None if name in absent else f"/usr/bin/{name}")
    with pytest.raises(SystemExit):
        tool.prepare()
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


class TestEmulated:
    pytestmark = slow

    def test_every_compiled_module_imports(self, emulated, members):
        packages = [path.parent.name for member in members for path in member.glob("src/*/__init__.py")]
        said = emulated("-I", "-W", "error", "-c", IMPORT_ALL, *packages)
        assert "executor.cpython" in said
        assert said.endswith("imported on aarch64\n")

    def test_pip_installs_the_wheels(self, emulated, tool, release, members, tmp_path):
        """In an empty environment of the emulated Python, which decides by their tags."""
        python = tmp_path / "environment" / "bin" / "python"
        python.parent.mkdir(parents=True)
        shutil.copy(tool.PYTHON, python)
        shutil.copy(tool.ENVIRONMENT / "pyvenv.cfg", tmp_path / "environment")
        compiled = [
            path.parent.name for member in members for path in member.glob("src/*/__init__.py") if any(member.rglob("*.pyx"))
        ]
        wheels = [wheel for folder in (tool.HOME / "build").iterdir() for wheel in (folder / "wheel").glob("*_aarch64.whl")]
        assert len(wheels) == len(compiled) > 1
        release.check(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", *wheels)
        packages = tmp_path / "environment" / tool.site_packages().relative_to(tool.ENVIRONMENT)
        for other in tool.site_packages().iterdir():  # what they require
            if not other.name.startswith("dovetail"):
                (packages / other.name).symlink_to(other)
        said = release.check(python, "-I", "-W", "error", "-c", IMPORT_ALL, *compiled)
        assert said.endswith("imported on aarch64\n")

    def test_backends_are_listed_and_survive_their_probe(self, emulated):
        """The probe runs in a child process, which must be an emulated one as well."""
        rows = json.loads(emulated("-m", "dovetail_sdk", "backends", "--check", "--json", DOVETAIL_PROBE="on"))
        expected = {**dict.fromkeys(BACKENDS, "loaded"), **dict.fromkeys(WITHOUT_DRIVER, "driver_missing")}
        assert {row["id"]: row["state"] for row in rows} == expected

    @pytest.mark.parametrize("backend", FLOATS)
    def test_a_network_gives_what_it_gives_here(self, emulated, release, root, tmp_path, backend):
        model = root / "examples" / "digits" / "digits.onnx"
        emulated("-c", DIGITS, model, backend, tmp_path / "there")
        release.check(sys.executable, "-c", DIGITS, model, backend, tmp_path / "here")
        there, here = ((tmp_path / place).read_bytes() for place in ("there", "here"))
        if backend == "CpuRef":
            assert there == here
        else:  # sums in vectors of another width
            np.testing.assert_allclose(np.frombuffer(there, np.float32), np.frombuffer(here, np.float32), rtol=1e-5, atol=1e-6)

    def test_a_quantized_network_gives_the_same_bits(self, emulated, release, tmp_path):
        for how in ("dots", "none"):
            emulated("-c", QUANTIZED, how, tmp_path / f"there {how}")
            release.check(sys.executable, "-c", QUANTIZED, how, tmp_path / f"here {how}")
        results = {path.read_bytes() for path in tmp_path.iterdir()}
        assert len(results) == 1
        assert len(set(results.pop())) > 50

    @pytest.mark.parametrize(
        ("backend", "options"), [*((backend, ()) for backend in BACKENDS), ("CpuAcc", ("--options", "dot_products=false"))]
    )
    def test_a_backend_conforms(self, emulated, tmp_path, backend, options):
        only = [word for check in CHECKS for word in ("--only", check)]
        report = tmp_path / "report.json"
        words = ("--level", "2", "--budget", "5m", "--report", report)
        emulated("-m", "dovetail_sdk", "conform", backend, *words, *options, *only)
        content = json.loads(report.read_text("utf-8"))
        assert content["verdict"] == "conforms"
        assert sum(check["level"] == 2 and check["status"] == "passed" for check in content["checks"]) >= 5


def test_every_backend_of_the_workspace_is_proven(root, members):
    """A member that declares a backend belongs into the list."""
    projects = [tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"] for member in members]
    declared = [name for project in projects for name in project.get("entry-points", {}).get("dovetail.backends", {})]
    assert sorted(declared) == sorted(BACKENDS + WITHOUT_DRIVER)
