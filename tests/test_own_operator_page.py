"""The page of one's own operator: what it says of nodes, and the package that it describes."""

import os
import re
import subprocess
import sys

import pytest

from dovetail_onnx import Node
from dovetail_tflite import Call

NOT_FOR_OTHERS = {"graph", "check_affordable", "unread"}  # of branches, of limits, of the parser itself


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs" / "your_own_operator.md").read_text("utf-8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("heading", "kind"), [("of the node", Node), ("of the call", Call)], ids=["onnx", "tflite"])
def test_the_page_tables_all_of_what_a_function_gets(page, heading, kind):
    table = page.partition(f"| {heading} | is |\n|---|---|\n")[2].partition("\n\n")[0]
    told = {name for row in table.splitlines() for name in re.findall(r"`(\w+)[(`]", row.split("|")[1])}
    attributes = set(re.findall(r"^        (\w+): ", kind.__doc__, re.MULTILINE))
    methods = {name for name in vars(kind) if not name.startswith("_")}
    assert told == (attributes | methods) - NOT_FOR_OTHERS


RUN = """
import numpy as np
import dovetail

for offsets in (np.array([0.5, -0.5, 0.0]), None):
    with dovetail.load(f"{offsets is not None}.onnx", ["CpuMine", "CpuRef"], threads=2) as net:
        for batch in (4, 1, 0, 1001):
            x = np.random.default_rng(1).standard_normal((batch, 3, 5)).astype(np.float32)
            positive = np.maximum(x.astype(np.float64), 0)
            expected = positive / (2 + positive) + (0 if offsets is None else offsets[:, None])
            np.testing.assert_allclose(net.run({"x": x})["y"], expected, rtol=1e-6, atol=1e-7)
        print(*(layer.backend for layer in net.placement.layers if layer.kind == "mine.Frobnicate"))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_package_of_the_page_runs_a_compiled_kernel(page, tmp_path, monkeypatch, release):
    """Write the files that the page shows, build them, and run its model by entry points alone."""
    monkeypatch.chdir(tmp_path)
    python = blocks(page, "python")
    release.check(sys.executable, "-m", "dovetail_sdk", "new-backend", "dovetail-mine", "--id", "CpuMine")
    package = tmp_path / "dovetail-mine" / "src" / "dovetail_mine"
    (package / "pooling.pyx").unlink()
    (layer,) = (block for block in python if "class Frobnicate(" in block)
    (operator,) = (block for block in python if "def frobnicate(node)" in block)
    (kernel,), (manifest,), (project,) = (blocks(page, language) for language in ("cython", "json", "toml"))
    (package / "onnx_operators.py").write_text(layer + operator.partition("\n\nnetwork = ")[0] + "\n")
    (package / "frobnicate.pyx").write_text(kernel)
    (package / "__init__.py").write_text(blocks(page, "python no-run")[0])
    (package / "dovetail-backend.json").write_text(manifest)
    (tmp_path / "dovetail-mine" / "pyproject.toml").write_text(project)
    pip = (sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation")
    release.check(*pip, "--target", tmp_path / "installed", tmp_path / "dovetail-mine")
    (model,) = (block for block in python if "onnx.save" in block)
    without = model.replace('["positive", "offsets"]', '["positive"]')
    for offsets, code in ((True, model), (False, without)):
        exec(code.replace("frobnicate.onnx", f"{offsets}.onnx"), {})
    path = os.pathsep.join(filter(None, [str(tmp_path / "installed"), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "DOVETAIL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", RUN], check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["CpuMine", "CpuMine"]
    command = [sys.executable, "-m", "dovetail_sdk", "run", "True.onnx", "-b", "CpuMine,CpuRef", "-i", "random"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
