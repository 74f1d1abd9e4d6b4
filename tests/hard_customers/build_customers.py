"""Build these backends once per state of their sources."""

import os
import subprocess
import sys
from pathlib import Path

from build_once import build_once

HERE = Path(__file__).resolve().parent


def build() -> Path:
    """Return a folder to put on sys.path.

    Raises:
        RuntimeError: They cannot be built.
    """
    import dovetail_build
    from dovetail import get_include

    core = Path(get_include()).parent
    sources = [*HERE.glob("*.py"), *HERE.glob("csrc/*"), *HERE.glob("src/**/*.py*")]
    sources += [core / name for name in ("include/abi.h", "abi.pxd")] + sorted(
        Path(dovetail_build.__file__).parent.glob("*.py")
    )
    sources = sorted(path for path in sources if path.suffix != ".pyc")
    return build_once(HERE / "build", sources, setup, sys.version.encode())


def setup(words: list[str]) -> None:
    """Run setup.py with these words."""
    command = [sys.executable, "setup.py", *words]
    done = subprocess.run(command, cwd=HERE, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(f"the hard customers do not build:\n{done.stdout}\n{done.stderr}")


def environment(*folders: Path) -> dict[str, str]:
    """Environment of a process that finds what this one finds, and `folders`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, sys.path)])}
