"""Build these backends once per state of their sources."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

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
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for path in sources if path.suffix != ".pyc"):
        digest.update(path.read_bytes())
    library = HERE / "build" / f"lib-{digest.hexdigest()[:16]}"
    if not library.exists():
        unfinished = library.with_name(f"{library.name}-{os.getpid()}")
        command = [
            sys.executable,
            "setup.py",
            "-q",
            "build",
            "--build-lib",
            str(unfinished),
            "--build-temp",
            f"{unfinished}-temp",
        ]
        done = subprocess.run(command, cwd=HERE, env=environment(), capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"the hard customers do not build:\n{done.stdout}\n{done.stderr}")
        try:
            unfinished.rename(library)
        except OSError:  # another process was first, with the same
            shutil.rmtree(unfinished, ignore_errors=True)
            if not library.is_dir():
                raise
    return library


def environment(*folders: Path) -> dict[str, str]:
    """Environment of a process that finds what this one finds, and `folders`."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, sys.path)])}
