"""What `dev.py COMMAND --help` prints, at once: nothing is set up or built for it.

What the sources say is read without running them. Options are asked of the program itself, where it
runs as things are. Like dev.py this parses on an old Python and needs the standard library alone.
"""

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / ".venv" / "bin" / "python"

PROGRAMS = {
    "demo": "examples/digits/run.py",
    "aarch64": "tools/aarch64.py",
    "fuzz": "tools/fuzz/__init__.py",
    "sanitize": "tools/sanitize.py",
    "simulate": "tools/simulate.py",
    "wheels": "tools/wheels.py",
}
"""Whose docstring tells more of a command."""
WITH_OPTIONS = {"fuzz": ("-m", "tools.fuzz"), "sanitize": ("tools/sanitize.py",), "wheels": ("tools/wheels.py",)}
"""Programs that list their options."""
OF_OTHERS = {"aarch64", "sanitize"}
"""Commands that hand their arguments to Python: only the first can ask for help about them."""
SECONDS = 60


def is_asked(name: str, arguments: "list[str]") -> bool:
    """Tell whether arguments of a command ask what it does."""
    own = arguments[:1] if name in OF_OTHERS else arguments
    return bool({"-h", "--help"}.intersection(own))


def help_of(name: str, arguments: "list[str]", usage: str, summary: str) -> str:
    """Return the help of a command.

    Args:
        name: The command.
        arguments: Those behind it.
        usage: The docstring of dev.py, which has lines about each command.
        summary: The command's own docstring.
    """
    lines = [line for line in usage.splitlines() if line.startswith("python3 dev.py " + name + " ")]
    parts = ["\n".join(lines)]
    if name == "bench":
        chosen = [word for word in arguments if (ROOT / "benchmarks" / (word + ".py")).is_file()][:1]
        parts += _of_benchmark(chosen[0]) if chosen else [summary, _benchmarks()]
    else:
        told = docstring(PROGRAMS[name]) if name in PROGRAMS else ""
        options = _options(name, *WITH_OPTIONS[name]) if name in WITH_OPTIONS else ""
        parts += [summary, told, options]
    if name in ("test", "simulate"):
        parts.append("Arguments are pytest's; it lists them: .venv/bin/python -m pytest --help")
    return "\n\n".join(filter(None, parts))


def docstring(file: str) -> str:
    """Return the docstring of a file of the workspace without importing it."""
    return ast.get_docstring(ast.parse((ROOT / file).read_text("utf-8"))) or ""


def _benchmarks() -> str:
    names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    width = max(map(len, names)) + 2
    lines = ["NAME, which is overhead where none is given:"]
    for name in names:
        first = " ".join(docstring("benchmarks/" + name + ".py").split("\n\n")[0].split())
        lines += textwrap.wrap(first, 96, initial_indent="  " + name.ljust(width), subsequent_indent=" " * (width + 2))
    return "\n".join([*lines, "", "python3 dev.py bench NAME --help lists the options of one."])


def _of_benchmark(name: str) -> "list[str]":
    file = "benchmarks/" + name + ".py"
    return [docstring(file), _options("bench " + name, file)]


def _options(command: str, *program: str) -> str:
    """Ask a program for its options, by the environment's Python or, without one, by this."""
    python = str(PYTHON) if PYTHON.exists() else sys.executable
    try:
        done = subprocess.run(
            [python, *program, "--help"],
            cwd=str(ROOT),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is None or done.returncode:
        return "Its options are listed once it is set up: python3 dev.py setup && python3 dev.py " + command + " --help"
    return done.stdout.decode("utf-8", "replace").strip()
