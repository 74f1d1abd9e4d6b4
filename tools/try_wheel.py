"""Try a member's wheel where it is installed: `python -I tools/try_wheel.py FOLDER`.

cibuildwheel calls it with the folder of each member that it builds. Every compiled module is
imported, and each backend that the member declares must be admitted.
"""

import importlib
import importlib.machinery
import platform
import sys
import tomllib
from pathlib import Path


def compiled_modules(package: str) -> "list[str]":
    """List the compiled modules of an installed package."""
    folder = Path(importlib.import_module(package).__file__).parent
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    found = [path for path in sorted(folder.rglob("*")) if path.name.endswith(suffixes)]
    return [".".join([*path.parent.relative_to(folder.parent).parts, path.name.partition(".")[0]]) for path in found]


def main(member: Path) -> None:
    """Import what is compiled and look for the backends.

    Raises:
        SystemExit: Nothing is compiled, or a backend is missing or broken; a sentence says which.
    """
    project = tomllib.loads((member / "pyproject.toml").read_text("utf-8"))["project"]
    (package,) = (path.parent.name for path in member.glob("src/*/__init__.py"))
    modules = compiled_modules(package)
    if not modules:
        raise SystemExit(f"{package}: no compiled module is installed; was the wheel built for this Python?")
    for module in modules:
        importlib.import_module(module)
    import dovetail

    rows = {str(row.id): row for row in dovetail.backends()}
    for backend in project.get("entry-points", {}).get("dovetail.backends", ()):
        if backend not in rows:
            raise SystemExit(
                f"{project['name']} declares the backend {backend}, and it is not found; there is {', '.join(rows)}"
            )
        if rows[backend].state != "available":
            raise SystemExit(f"{backend} is {rows[backend].state}")
    print(f"{project['name']}: {len(modules)} compiled modules imported on {platform.machine()}, {platform.python_version()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
