"""`dovetail new-backend`: a project to start a backend from."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..scaffold import Files

_TEMPLATES = "backend: Cython; backend_npu: C++ without Python; backend_runtime: around a runtime that reads ONNX."


@click.command()
@click.argument("name")
@click.argument("dest", required=False, type=click.Path(path_type=Path))
@click.option("--id", "backend_id", metavar="ID", help="What users write to select it. Default: made from NAME.")
@click.option("--template", default="backend", show_default=True, help=_TEMPLATES)
@click.option("--install", is_flag=True, help="Build and install it at once, in editable form, and list it.")
def command(name: str, dest: Path | None, backend_id: str | None, template: str, install: bool) -> None:
    """Make the project of a new backend, a distribution called NAME, in DEST (default: ./NAME).

    It builds and passes the conformance tests as it stands; then put your own kernels in.
    """
    from ..scaffold import build_requirements, check_names, templates, write_project

    known = templates()
    if template not in known:
        raise click.BadParameter(f"there is no template {template!r}; there are {', '.join(known)}", param_hint="--template")
    chosen = known[template]
    names = check_names(name, backend_id or chosen.default_id(name))
    folder = dest or Path(name)
    files = chosen.render(names)
    write_project(files, folder)
    click.echo(f"wrote {len(files)} files into {folder}: {names.distribution}, whose backend is {names.backend_id}")
    steps = [*install_lines(folder, build_requirements(files)), "dovetail backends"]
    if install:
        click.echo("building it with what is installed here, not in isolation: it is the core that it will run on")
        _install(folder, steps[:-1], missing_compiler(files))
        _list_backends()
    click.echo("next:")
    for line in [*([] if install else steps), *next_steps(folder, files, str(names.backend_id))]:
        click.echo(f"  {line}")


def _install(folder: Path, steps: Sequence[str], missing: str | None) -> None:
    """Run the steps that fetch what a project is built with, and build it."""
    if missing:
        raise click.ClickException(f"{folder} cannot be built: {missing}; then: {' && '.join(steps)}")
    causes = (
        f"what {folder} is built with cannot be installed, see above; if dovetail came from a folder of wheels, name that: "
        "export PIP_FIND_LINKS=FOLDER",
        f"{folder} does not build, see above; fix it",
    )
    for number, (line, cause) in enumerate(zip(steps, causes, strict=True)):
        if subprocess.run([sys.executable, *shlex.split(line)[1:]], check=False).returncode:
            raise click.ClickException(f"{cause}; then: {' && '.join(steps[number:])}")


def missing_compiler(files: Files) -> str | None:
    """Say which compiler a project needs that is not there, and what to do; None if none is.

    Wheels install without any: whoever builds a first backend may have none.
    """
    suffixes = {path.suffix for path in files}
    for language, variable, needing in (("C", "CC", {".pyx", ".c"}), ("C++", "CXX", {".cpp"})):
        words = shlex.split(os.environ.get(variable) or sysconfig.get_config_var(variable) or "")
        if words and suffixes & needing and shutil.which(words[0]) is None:
            return (
                f"no {language} compiler ({words[0]!r}) is on PATH; install one (Debian, Ubuntu: apt install g++) "
                f"or name yours in {variable}"
            )
    return None


def _list_backends() -> None:
    """List the backends as a new process finds them: this one has looked already."""
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "dovetail_sdk", "backends"], check=False)


def install_lines(folder: Path, requirements: Sequence[str]) -> list[str]:
    """Return commands that build and install a project, editable, against the installed core."""
    path = str(folder) if folder.is_absolute() else os.path.join(os.curdir, folder)
    tools = " ".join(map(shlex.quote, requirements))
    return [
        f"python -m pip install -q {tools}",
        f"python -m pip install -q --no-build-isolation -e {shlex.quote(path)}",
    ]


def next_steps(folder: Path, files: Files, backend_id: str) -> list[str]:
    """Return the commands that prove an installed backend, and a first run that uses it."""
    own = PurePosixPath("first_run.py")
    run = (
        f"python {shlex.quote(str(folder / own))}" if own in files else f"dovetail run digits -b {backend_id},CpuRef -i random"
    )
    return [f"dovetail conform {backend_id}", run]
