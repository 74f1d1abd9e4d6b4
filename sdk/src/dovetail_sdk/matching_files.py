"""Which of the files of an earlier run are those of this one, by their names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath


def matched(earlier: Sequence[str], files: Sequence[str]) -> list[int | None]:
    """Say of each file which of the earlier ones it is; None: it is none of them.

    Names are compared as they are written, from the folder on that all lie in, or without their
    folders: whichever finds most. So a folder may have moved meanwhile.
    """
    found: list[int | None] = [None] * len(files)
    for keys_of in (_as_written, _below_the_folder, _names):
        known, keys = keys_of(earlier), keys_of(files)
        if len({*known}) < len({*earlier}) or len({*keys}) < len({*files}):  # different files have the same
            continue
        place = {key: at for at, key in reversed([*enumerate(known)])}
        trial = [place.get(key) for key in keys]
        if _count(trial) > _count(found):
            found = trial
    return found


def _count(found: Sequence[int | None]) -> int:
    return sum(at is not None for at in found)


def _as_written(files: Sequence[str]) -> list[str]:
    return [os.path.normpath(file) for file in files]


def _below_the_folder(files: Sequence[str]) -> list[str]:
    try:
        folder = os.path.commonpath([os.path.dirname(file) for file in files])
        return [os.path.relpath(file, folder or ".") for file in files]
    except ValueError:  # some are absolute, some are not; or there are none, or one is no name
        return list(files)


def _names(files: Sequence[str]) -> list[str]:
    return [PurePath(file).name for file in files]
