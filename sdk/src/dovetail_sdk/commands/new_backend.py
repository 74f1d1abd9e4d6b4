"""`dovetail new-backend`: a project to start a backend from."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click


@click.command()
@click.argument("name")
@click.argument("dest", required=False, type=click.Path(path_type=Path))
@click.option("--id", "backend_id", metavar="ID", help="What users write to select it. Default: made from NAME.")
@click.option("--template", default="backend", show_default=True, help="backend: Cython; backend_npu: C++ without Python.")
@click.option("--install", is_flag=True, help="Build and install it at once, in editable form, and list it.")
def command(name: str, dest: Path | None, backend_id: str | None, template: str, install: bool) -> None:
    """Make the project of a new backend, a distribution called NAME, in DEST (default: ./NAME).

    It builds and passes the conformance tests as it stands; then put your own kernels in.
    """
    from ..scaffold import check_names, templates, write_project

    known = templates()
    if template not in known:
        raise click.BadParameter(f"there is no template {template!r}; there are {', '.join(known)}", param_hint="--template")
    chosen = known[template]
    names = check_names(name, backend_id or chosen.default_id(name))
    folder = dest or Path(name)
    files = chosen.render(names)
    write_project(files, folder)
    click.echo(f"wrote {len(files)} files into {folder}: {names.distribution}, whose backend is {names.backend_id}")
    if install:
        installed = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "-e", str(folder)], check=False)
        if installed.returncode:
            raise click.ClickException(f"{folder} does not build, see above; fix it, then: {install_line(folder)}")
        _list_backends()
    click.echo("next:")
    for line in next_steps(folder, str(names.backend_id), installed=install):
        click.echo(f"  {line}")


def _list_backends() -> None:
    """List the backends as a new process finds them: this one has looked already."""
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "dovetail_sdk", "backends"], check=False)


def install_line(folder: Path) -> str:
    """Return the command that builds and installs a project."""
    path = str(folder) if folder.is_absolute() else os.path.join(os.curdir, folder)
    return f"python -m pip install -e {shlex.quote(path)}"


def next_steps(folder: Path, backend_id: str, *, installed: bool = False) -> list[str]:
    """Return the commands that lead to a proven backend."""
    steps = [] if installed else [install_line(folder), "dovetail backends"]
    return [*steps, f"dovetail conform {backend_id}", f"dovetail run digits -b {backend_id},CpuRef -i random"]
