"""Write outputs into files of arrays; a file appears only once it is complete."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


def save(path: Path, results: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the outputs: all into a .npz, or the only one into a .npy.

    Raises:
        OSError: That fails; it names `path`, and no part of the file stays.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            if path.suffix.lower() == ".npy":
                (array,) = results.values()
                np.save(file, array, allow_pickle=False)
            else:
                # Outputs may be called "file", which is a parameter of np.savez: so the archive is
                # written by hand.
                write_npz(file, results)
        partial.replace(path)
    except OSError as error:
        if error.strerror is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that was asked for, not the partial file's
    finally:
        with suppress(OSError):  # what went wrong before is what matters
            partial.unlink(missing_ok=True)


def write_npz(file: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays of any names into an open .npz."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
