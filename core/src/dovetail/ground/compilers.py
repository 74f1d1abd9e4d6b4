"""Say what a build from source lacks, before it begins, in a sentence.

Setuptools would say so below a page of copied files. The core's own build reads this module from
its file, before there is a core to import; `dovetail_build` imports it for everybody else's. So it
needs nothing but the standard library and, when a build calls it, setuptools.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

_CPP = (".cpp", ".cc", ".cxx", ".c++")
_SECONDS = 60
"""After which a compiler that says nothing is left to the build itself."""


def checking(command: Any) -> Any:
    """Make a command of setuptools, `build` or `build_ext`, begin with `require_compilers`."""

    class Checking(command):  # type: ignore[misc]  # a class that only the build has
        def run(self) -> None:
            require_compilers(self.distribution)
            super().run()

    Checking.__name__ = Checking.__qualname__ = command.__name__
    return Checking


def require_compilers(distribution: Any) -> None:
    """End a build whose compiler, or headers of Python, are not there.

    Args:
        distribution: Of setuptools.

    Raises:
        SystemExit: With one sentence: what is missing, and what to do.
    """
    modules = distribution.ext_modules or []
    compiler = _unix_compiler(distribution) if modules else None
    if compiler is None:
        return
    cpp = any(_is_cpp(module) for module in modules)
    # A module without Python is none of an extension's own class; see `dovetail_build`.
    header = any(not getattr(module, "file_name", "") for module in modules)
    includes = [f"-I{folder}" for folder in compiler.include_dirs]
    lacking = missing(compiler.compiler, compiler.compiler_cxx if cpp else None, includes if header else None)
    if lacking:
        raise SystemExit(f"{distribution.get_name()} cannot be built from source here: {lacking}, or install a wheel of it")


def missing(c: Sequence[str], cpp: Sequence[str] | None, includes: Sequence[str] | None) -> str:
    """Return what a build lacks, with what to do, as the beginning of a sentence; "" if nothing.

    Args:
        c: Command of the C compiler.
        cpp: Command of the C++ compiler; None if none is needed.
        includes: Arguments that lead to Python's headers; None if they are not needed.
    """
    for language, variable, command, usual, probe in (
        ("C", "CC", c, "gcc", "#include <stddef.h>\n"),
        ("C++", "CXX", cpp, "g++", "#include <cstddef>\n"),
    ):
        if command is None:
            continue
        words = [word for one in command for word in shlex.split(one)] or [usual]
        install = f"install one (Debian, Ubuntu: apt install g++, which brings gcc along), name yours in {variable}"
        if shutil.which(words[0]) is None:
            return f"there is no {language} compiler ({words[0]!r} is not on PATH); {install}"
        if not _takes(words, language, probe):
            return f"the {language} compiler {words[0]!r} does not work (it refuses {probe.strip()!r}); {install}"
    words = [word for one in c for word in shlex.split(one)]
    if includes is not None and not _takes([*words, *includes], "C", "#include <Python.h>\n"):
        return "Python's C headers are missing (Python.h); install them (Debian, Ubuntu: apt install python3-dev)"
    return ""


def _takes(words: Sequence[str], language: str, text: str) -> bool:
    command = [*words, "-x", language.lower(), "-fsyntax-only", "-"]
    try:
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return True  # the build says what it is
    return done.returncode == 0


def _is_cpp(module: Any) -> bool:
    return module.language == "c++" or any(str(source).endswith(_CPP) for source in module.sources)


def _unix_compiler(distribution: Any) -> Any:
    """Return the compiler that the build will use, unless it is one of another make."""
    from setuptools.command.build_ext import customize_compiler, new_compiler

    command = distribution.get_command_obj("build_ext")
    command.ensure_finalized()
    chosen = command.compiler if isinstance(command.compiler, str) else None
    compiler = new_compiler(compiler=chosen)
    if compiler.compiler_type != "unix":
        return None
    customize_compiler(compiler)
    compiler.set_include_dirs(command.include_dirs or [])
    return compiler
