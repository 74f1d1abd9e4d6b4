"""Run `dovetail new-backend` as a vendor: empty environment, local wheels, printed commands."""

import json
import os
import subprocess
import time
import venv

import pytest

from dovetail_sdk.scaffold import templates

LONGEST = 120  # seconds from an empty environment to a proven backend
NAMES = {
    "backend": ("dovetail-initech", "CpuInitech"),
    "backend_npu": ("dovetail-initech-npu", "InitechNpu"),
    "backend_runtime": ("dovetail-initech-runtime", "InitechRuntime"),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Terminal:
    """A shell in a folder and an environment, which has the wheels at hand and no index."""

    def __init__(self, folder, environment, *links):
        self.folder = folder
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "DOVETAIL_"))}
        path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
        links = " ".join(map(str, links))
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.environment = {**variables, **pip, "PATH": path, "DOVETAIL_CACHE_DIR": str(folder / "cache")}

    def __call__(self, line):
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


def empty(folder):
    """Create an environment that holds nothing but pip."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder


@pytest.fixture(scope="module")
def furnished(wheels, shelf, tmp_path_factory):
    """An environment with dovetail for tests that would install it; each names its own backend."""
    work = tmp_path_factory.mktemp("furnished")
    Terminal(work, empty(work / "environment"), wheels, shelf)("python -m pip install -q dovetail")
    return work / "environment"


@pytest.fixture
def terminal(furnished, wheels, shelf, tmp_path):
    return Terminal(tmp_path, furnished, wheels, shelf)


def test_four_commands_lead_to_a_proven_backend(wheels, shelf, tmp_path):
    terminal = Terminal(tmp_path, empty(tmp_path / "environment"), wheels, shelf)
    start = time.monotonic()
    terminal("python -m pip install -q dovetail")
    listing = terminal("dovetail new-backend dovetail-initech --install")
    assert "CpuInitech" in listing
    assert "available" in listing
    terminal("dovetail conform CpuInitech")
    shown = terminal("dovetail run digits -b CpuInitech,CpuRef -i random")
    seconds = time.monotonic() - start
    assert "probabilities" in shown
    print(f"{seconds:.0f} s")  # shown by pytest -rP
    assert seconds < LONGEST


@pytest.mark.parametrize("template", list(templates()))
def test_the_printed_steps_work_as_printed(terminal, template):
    name, backend_id = NAMES[template]
    printed = terminal(f"dovetail new-backend {name} --id {backend_id} --template {template}")
    steps = [line.strip() for line in printed.partition("next:")[2].splitlines() if line.strip()]
    run = f"{name}/first_run.py" if template == "backend_npu" else "run"
    assert [step.split()[1] for step in steps] == ["-m", "-m", "backends", "conform", run]
    if template == "backend_runtime":  # which no package requires, and no shelf here has
        told = terminal(f"{steps[0]} && {steps[1]} && (dovetail run digits -b {backend_id} -i random 2>&1 || true)")
        assert "onnxruntime is not installed" in told
        return
    shown = {step.split()[1]: terminal(step) for step in steps}
    assert backend_id in shown["backends"]
    assert backend_id in shown["conform"]
    assert backend_id in shown[run] if template == "backend_npu" else "probabilities" in shown[run]
    placement = json.loads(terminal(f"dovetail explain digits -b {backend_id},CpuRef --json"))
    refusals = [
        refusal for layer in placement["layers"] for refusal in layer.get("refusals", ()) if refusal["backend"] == backend_id
    ]
    assert refusals
    assert all(refusal["code"] and refusal["reason"] for refusal in refusals)
    homes = {layer["backend"] for layer in placement["layers"]}
    assert homes == ({"CpuRef"} if template == "backend_npu" else {backend_id, "CpuRef"})  # the demo is float


def test_an_sdist_of_a_project_becomes_a_wheel_elsewhere(terminal):
    """In isolation, from the sdist alone."""
    terminal("python -m pip install -q dovetail-build")
    terminal("dovetail new-backend dovetail-globex")
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    terminal(f'cd dovetail-globex && python -c "{build}" ..')
    terminal("python -m pip install -q dovetail_globex-0.1.0.tar.gz")
    assert "CpuGlobex" in terminal("dovetail backends")
