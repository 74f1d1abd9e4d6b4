"""Run `dovetail new-backend` as a vendor: empty environment, local wheels, printed commands."""

import functools
import http.server
import json
import os
import re
import subprocess
import threading
import time
import venv

import pytest

from dovetail_sdk.scaffold import templates

LONGEST = 120  # seconds of a processor from an empty environment to a proven backend
NAMES = {
    "backend": ("dovetail-initech", "CpuInitech"),
    "backend_npu": ("dovetail-initech-npu", "InitechNpu"),
    "backend_runtime": ("dovetail-initech-runtime", "InitechRuntime"),
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


class Terminal:
    """A shell in a folder and an environment, which knows no index but what it is told."""

    def __init__(self, folder, environment, **pip):
        self.folder = folder
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "DOVETAIL_"))}
        path = os.pathsep.join([str(environment / "bin"), os.environ["PATH"]])
        own = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "DOVETAIL_CACHE_DIR": str(folder / "cache")}
        self.environment = {**variables, **own, **pip, "PATH": path}

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
def links(wheels, shelf):
    """What has pip take everything from folders, as variables."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{wheels} {shelf}"}


@pytest.fixture(scope="module")
def furnished(links, tmp_path_factory):
    """An environment with dovetail for tests that would install it; each names its own backend."""
    work = tmp_path_factory.mktemp("furnished")
    Terminal(work, empty(work / "environment"), **links)("python -m pip install -q dovetail")
    return work / "environment"


@pytest.fixture
def terminal(furnished, links, tmp_path):
    return Terminal(tmp_path, furnished, **links)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and tells nothing about it."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def index(wheels, shelf, tmp_path_factory):
    """Serve the wheels as a simple index (PEP 503: a page of links for each name); its address."""
    folder = tmp_path_factory.mktemp("index")
    for path in [*wheels.iterdir(), *shelf.iterdir()]:
        name = re.sub(r"[-_.]+", "-", re.match(r"(.+?)-\d", path.name)[1]).lower()
        (folder / "simple" / name).mkdir(parents=True, exist_ok=True)
        (folder / "simple" / name / path.name).symlink_to(path)
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


WAYS = {
    "variables that name folders": ("python -m pip install -q dovetail", "links"),
    "a variable that names an index": ("python -m pip install -q dovetail", "index"),
    "folders named once": ("python -m pip install -q --no-index {options} 'dovetail[build]'", None),
}
"""How dovetail is installed, and what pip knows when it is called again."""


@pytest.mark.parametrize("way", WAYS)
def test_four_commands_lead_to_a_proven_backend(way, release, links, index, wheels, shelf, tmp_path):
    install, known = WAYS[way]
    pip = {"links": links, "index": {"PIP_INDEX_URL": index}, None: {"PIP_INDEX_URL": f"{index}/none"}}[known]
    terminal = Terminal(tmp_path, empty(tmp_path / "environment"), **pip)
    start, before = time.monotonic(), release.processor_seconds()
    terminal(install.format(options=f"--find-links {wheels} --find-links {shelf}"))
    listing = terminal("dovetail new-backend dovetail-initech --install")
    assert "CpuInitech" in listing
    assert "available" in listing
    terminal("dovetail conform CpuInitech")
    shown = terminal("dovetail run digits -b CpuInitech,CpuRef -i random")
    seconds = release.processor_seconds() - before
    assert "probabilities" in shown
    print(f"{time.monotonic() - start:.0f} s, {seconds:.0f} s of a processor")  # shown by pytest -rP
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
