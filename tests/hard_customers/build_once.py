"""Build from sources into a folder of their state, which later processes find."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path


def build_once(folder: Path, sources: Iterable[Path], build: Callable[[list[str]], object], *more: bytes) -> Path:
    """Return the folder of what is built.

    Args:
        folder: In which there is one for each state of the sources.
        sources: What is read; their order counts.
        build: Builds with these words behind a call of setuptools.
        more: What else makes another state.
    """
    digest = hashlib.sha256(b"".join([*more, *[path.read_bytes() for path in sources]]))
    library = folder / f"lib-{digest.hexdigest()[:16]}"
    if not library.exists():
        unfinished = library.with_name(f"{library.name}-{os.getpid()}")
        build(["-q", "build", "--build-lib", str(unfinished), "--build-temp", f"{unfinished}-temp"])
        try:
            unfinished.rename(library)
        except OSError:  # another process was first, with the same
            shutil.rmtree(unfinished, ignore_errors=True)
            if not library.is_dir():
                raise
    return library
