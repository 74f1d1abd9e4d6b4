"""Check the templates in the repository: small, working, and as their manifests describe them."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import numpy as np
import pytest

MAX_FILES, MAX_LINES = 6, 80
BUILD_FILES = {"pyproject.toml", "setup.py", "MANIFEST.in", "CMakeLists.txt", "README.md"}
DOCSTRING = re.compile(r'^\s*"""(?:.|\n)*?"""[ ]*$', re.MULTILINE)
NAMES = sorted(path.parent.name for path in (Path(__file__).resolve().parents[1] / "templates").glob("*/pyproject.toml"))


def sources(folder):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", str(folder)]
    listed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return [path for name in listed.split("\0") if name and (path := folder / name).is_file()]


def lines_of_code(path):
    """Count lines that are neither blank, comment nor docstring."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        first = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT, tokenize.ENCODING}
        lines = set()
        for before, token in zip([None, *tokens], tokens, strict=False):
            is_docstring = token.type == tokenize.STRING and (before is None or before.type in first)
            if token.type not in first | {tokenize.ENDMARKER} and not is_docstring:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines)
    text = re.sub(r"/\*(?:.|\n)*?\*/|//[^\n]*", "", text) if path.suffix in (".cpp", ".c", ".h") else DOCSTRING.sub("", text)
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def test_the_smallest_backend_is_small(root):
    """Arm NN's smallest takes 16 files and 1,019 lines."""
    files = sources(root / "templates" / "backend")
    counts = {path.name: lines_of_code(path) for path in files if path.name not in BUILD_FILES}
    print(counts, sum(counts.values()))  # shown by pytest -rP
    assert {"__init__.py", "pooling.pyx", "dovetail-backend.json", "test_conformance.py"} <= set(counts)
    assert min(counts[name] for name in ("__init__.py", "pooling.pyx", "test_conformance.py")) > 3
    assert len(files) <= MAX_FILES
    assert sum(counts.values()) <= MAX_LINES


def in_process(folder, *command, cwd=None):
    """Run a command in a process that finds a built template."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


RUN_POOLING = """
import sys
import numpy as np
import dovetail
from dovetail import Network

case = np.load(sys.argv[1], allow_pickle=True)["case"].item()
network = Network("pooling")
network.output(network.pooling2d(network.input("x", case["x"].shape), **case["pooling"]), name="y")
with dovetail.load(network, ["CpuAcme"], threads=2) as loaded:
    np.save(sys.argv[2], loaded.run({"x": case["x"]})["y"])
"""

POOLINGS = [
    {"function": "max", "size": 2, "stride": 2},
    {"function": "average", "size": 2, "stride": 2},
    {"function": "max", "size": (3, 2), "stride": (2, 1)},
    {"function": "average", "size": (3, 2), "stride": (2, 1)},
    {"function": "average", "size": 3, "stride": 2},
    {"function": "max", "size": (7, 6)},
    {"function": "max", "size": 1},
]


def pooled(x, function, size, stride=1, padding=0, ceil_mode=False):
    """Pool with NumPy in float64, window by window."""
    size, stride = (np.broadcast_to(pair, 2) for pair in (size, stride))
    top, left, bottom, right = np.broadcast_to(padding, 4)
    round_ = np.ceil if ceil_mode else np.floor
    shape = [
        int(round_((x.shape[2] + top + bottom - size[0]) / stride[0])) + 1,
        int(round_((x.shape[3] + left + right - size[1]) / stride[1])) + 1,
    ]
    y = np.empty((*x.shape[:2], *shape))
    for row in range(shape[0]):
        for column in range(shape[1]):
            first, start = row * stride[0] - top, column * stride[1] - left
            window = x[:, :, max(first, 0) : first + size[0], max(start, 0) : start + size[1]].astype(np.float64)
            y[:, :, row, column] = window.max(axis=(2, 3)) if function == "max" else window.mean(axis=(2, 3))
    return y


@pytest.mark.parametrize("pooling", POOLINGS, ids=str)
def test_the_kernel_pools(built_template, tmp_path, pooling):
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6), np.float32)
    np.savez(tmp_path / "case.npz", case=np.array({"x": x, "pooling": pooling}, dtype=object))
    done = in_process(built_template("backend"), "-c", RUN_POOLING, tmp_path / "case.npz", tmp_path / "y.npy")
    assert done.returncode == 0, done.stderr
    # The sum is formed in float64 and rounded once: half a unit in the last place.
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), pooled(x, **pooling), rtol=2**-24)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_template_passes_its_own_conformance_tests(built_template, root, tmp_path, name):
    (test,) = (root / "templates" / name / "tests").glob("test_*.py")
    test = shutil.copy(test, tmp_path)  # away from this repository's settings of pytest
    command = ("-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, test)
    done = in_process(built_template(name), *command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.parametrize("name", NAMES)
def test_a_template_states_nothing_twice(root, name):
    """The id stands in the manifest alone; the build writes ABI, entry point and core versions."""
    (path,) = (root / "templates" / name / "src").glob("*/dovetail-backend.json")
    manifest = json.loads(path.read_text("utf-8"))
    assert "abi" not in manifest
    files = [path for path in sources(root / "templates" / name) if path.parent.name != "tests"]
    code = [path for path in files if path.suffix in {".py", ".pyx", ".cpp", ".h"}]
    project = (root / "templates" / name / "pyproject.toml").read_text("utf-8")
    said = [path.name for path in code if f'"{manifest["id"]}"' in path.read_text("utf-8")]
    assert said == []
    assert manifest["id"] not in re.sub(r'description = "[^"]*"', "", project)


def test_the_template_explains_what_it_refuses(built_template, root, tmp_path):
    done = in_process(built_template("backend"), "-m", "dovetail_sdk", "explain", "digits", "-b", "CpuAcme,CpuRef", "--json")
    assert done.returncode == 0, done.stderr
    layers = json.loads(done.stdout)["layers"]
    assert {layer["name"] for layer in layers if layer["backend"] == "CpuAcme"} == {"pool1", "pool2"}
    refusals = [refusal for layer in layers for refusal in layer["refusals"]]
    assert len(refusals) == len(layers) - 2
    assert all(refusal["code"] == "kind" and "is not taken; dovetail.Pooling2d is" in refusal["reason"] for refusal in refusals)


RUN_WHOLE = """
import numpy as np
import dovetail
from dovetail import Network

rng = np.random.default_rng(0)
network = Network("cnn")
x = network.input("x", (1, 3, 16, 16))
y = network.relu(network.convolution2d(x, rng.standard_normal((8, 3, 3, 3), np.float32), padding=1))
z = network.convolution2d(y, rng.standard_normal((8, 8, 3, 3), np.float32), padding=1)
y = network.pooling2d(network.addition(y, z), "max", 2, stride=2)
y = network.flatten(network.global_pooling(y))
y = network.softmax(network.fully_connected(y, rng.standard_normal((10, 8), np.float32)))
network.output(y, name="y")
assert len({layer.kind for layer in network}) - 3 >= 6
feeds = {"x": rng.standard_normal((1, 3, 16, 16), np.float32)}
results = []
for backend in ("CpuRef", "AcmeRuntime"):
    with dovetail.load(network, [backend], threads=1) as net:
        results.append(net.run(feeds)["y"])
        layers = net.placement.layers
np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-6)
print([(layer.kind, layer.backend) for layer in layers])
"""


def test_a_network_runs_as_one_layer_of_the_wrapped_runtime(built_template):
    pytest.importorskip("onnxruntime", reason="the runtime that the template wraps is not installed")
    done = in_process(built_template("backend_runtime"), "-c", RUN_WHOLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[('dovetail.WholePart', 'AcmeRuntime')]"


END_AT_THE_DEADLINE = """
from time import monotonic, sleep
from types import SimpleNamespace
import numpy as np
import dovetail
from dovetail_acme_runtime.session import ended_by

with ended_by(SimpleNamespace(deadline=None)) as options:
    sleep(0.05)
    assert not options.terminate
with ended_by(SimpleNamespace(deadline=monotonic())) as options:
    end = monotonic() + 20
    while not options.terminate:
        assert monotonic() < end, "nobody ended the session"
        sleep(0.001)

network = dovetail.Network("long")
y = network.input("x", (1024, 256))
for _ in range(100):
    y = network.fully_connected(y, np.eye(256, dtype=np.float32))
network.output(y, "y")
feeds = {"x": np.ones((1024, 256), np.float32)}
with dovetail.load(network, ["AcmeRuntime"], threads=1) as net:
    np.testing.assert_array_equal(net.run(feeds, timeout=100.0)["y"], feeds["x"])
    try:
        net.run(feeds, timeout=0.002)
    except dovetail.RunTimeoutError:
        print("ended")
    np.testing.assert_array_equal(net.run(feeds)["y"], feeds["x"])
"""


def test_a_wrapped_session_ends_at_the_deadline(built_template):
    pytest.importorskip("onnxruntime", reason="the runtime that the template wraps is not installed")
    done = in_process(built_template("backend_runtime"), "-c", END_AT_THE_DEADLINE)
    assert (done.returncode, done.stdout.strip()) == (0, "ended"), done.stderr
