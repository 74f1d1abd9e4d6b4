"""Turn a model into a network.

A file is read by the parser for its suffix, what lies in memory by one that says it takes it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..ground.close_names import close_names
from ..ground.errors import ErrorCode, ModelError
from ..ground.late_reads import waiting
from ..ground.limits import Limits, limited
from .held_files import HeldFiles, stamp_of
from .parsers import created, installed_suffixes, offer_for, parsed, suffix_of

if TYPE_CHECKING:
    from ..layers.network import Network


def parse(model: str | os.PathLike[str] | Any, *, limits: Limits | None = None, late_weights: bool = False) -> Network:
    """Read a model.

    Args:
        model: The path of a file, the bytes of one, a binary file that is open for reading, or a
            model as a package for its format holds it, such as an `onnx.ModelProto`.
        limits: How much it may take.
        late_weights: Leave large weights in their files, if the parser can, until something asks
            for their elements: to look at layers and sizes takes none of them. The files must stay
            as they are; of one that was changed or removed, `Constant.value` raises `ModelError`.

    Raises:
        OptionError: It is none of these (`OPTION_INVALID`).
        ModelError: The file does not exist (`MODEL_NOT_FOUND`), no parser is installed for its
            suffix (`MODEL_FORMAT_UNKNOWN`), or the parser refuses it.
        LimitError: It asks for more than its limits allow (`LIMIT_EXCEEDED`), or takes longer
            (`TIMEOUT`).
    """
    with limited(limits) as load, waiting(late_weights):
        before = load.memory
        if isinstance(model, str | os.PathLike):
            network = _parse(model)
        else:
            from .contents import parse_content  # few models lie in memory

            network = parse_content(model)
        missing = network.bytes_of_constants(in_memory=True) - (load.memory - before)
        if missing > 0:  # a parser that counts nothing itself
            load.take_memory(missing, f"the constants of network {network.name!r}")
        return network


def _parse(path: str | os.PathLike[str]) -> Network:
    file = os.fsdecode(path)
    _check_readable(file)
    suffix = suffix_of(file)
    offer = offer_for(file, suffix)
    try:
        return parsed(offer, suffix, created(offer, suffix).parse, file, file)
    except ModelError as error:
        if error.code is ErrorCode.MODEL_MALFORMED:
            from .mistaken_files import what_else  # only what goes wrong needs it

            error.hint = what_else(file, offer) or error.hint
        raise


class ModelSource:
    """A model file that may be wanted again.

    Args:
        path: The file; a relative path counts from the working directory of now.
        limits: How much it may take to read it again, outside of a load that has limits of its own.

    Attributes:
        place: Its absolute path.
        stamps: What its files looked like, by path; empty if they were not read.
        is_read_alone: Whether nothing but these files and the parser decided what was read.
    """

    def __init__(self, path: str | os.PathLike[str], limits: Limits | None = None) -> None:
        self._limits = limits
        self._path = os.fsdecode(path)
        self.place = _absolute(self._path)
        self.stamps: dict[str, Any] = {}
        self.is_read_alone = True
        self._held: HeldFiles | None = None

    @property
    def suffix(self) -> str:
        """Of the file, without the dot, in small letters."""
        return suffix_of(self._path)

    def stamp(self) -> tuple[int, ...] | None:
        """Tell one state of the file from another; None if it is no file."""
        return stamp_of(self.place)

    def is_unchanged(self, stamps: Mapping[str, Any]) -> bool:
        """Tell whether files are as they were."""
        return all(stamp is not None and stamp_of(file) == stamp for file, stamp in stamps.items())

    def parse(self) -> Network:
        """Read it; raises what `parse` raises."""
        before = stamp_of(self.place)
        network = parse(self._path)
        self.stamps = {_absolute(file): stamp_of(file) for file in network.files} | {self.place: before}
        self.is_read_alone = bool(network.files) and not network.is_read_with_others
        return network

    def parse_again(self) -> Network:
        """Read it another time.

        Raises:
            ModelError: One of its files is not there any more, or was changed since
                (`MODEL_NOT_FOUND`), or others translate its operators now (`OPERATOR_FAILED`).
        """
        for file, stamp in self.stamps.items():
            if not self.is_unchanged({file: stamp}):
                if self._held is not None and self._held.is_whole():
                    return self._parse_held(self._held)
                raise ModelError(
                    f"{file!r} was removed or changed after model {self._path!r} was loaded",
                    code=ErrorCode.MODEL_NOT_FOUND,
                    hint="to keep what was loaded, parse it first: dovetail.load(dovetail.parse(path))",
                    path=file,
                )
        with limited(self._limits, joining=True):
            network = parse(self.place)
        if self.is_read_alone and network.is_read_with_others:
            raise ModelError(
                f"an operator of {self._path!r} is translated by a function that was registered after the model was loaded",
                code=ErrorCode.OPERATOR_FAILED,
                hint="load the model again to have it read by that function, or unregister it",
                path=self.place,
            )
        return network

    def hold(self) -> None:
        """Hold its files, so that `parse_again` reads them even if others took their places."""
        self._held = HeldFiles(self.stamps)

    def _parse_held(self, held: HeldFiles) -> Network:
        import tempfile

        with contextlib.ExitStack() as stack:
            try:
                copy = held.copy(self.place, stack.enter_context(tempfile.TemporaryDirectory(prefix="dovetail-")))
            except OSError as error:
                raise ModelError(
                    f"{self._path!r} was removed or replaced since, and cannot be copied to be read again: {error}",
                    code=ErrorCode.MODEL_NOT_FOUND,
                    hint="make room in the folder for temporary files (TMPDIR), or load the model anew",
                    path=self.place,
                ) from error
            stack.enter_context(limited(self._limits, joining=True))
            return parse(copy)


def _absolute(file: str) -> str:
    """Return a path from the root. Above a link is the folder that it leads to, not its own."""
    return os.path.join(os.getcwd(), file) if os.pardir in file.split(os.sep) else os.path.abspath(file)


def _check_readable(file: str) -> None:
    try:
        mode = os.stat(file).st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:  # a folder that may not be entered, or a path that no file can have
        raise ModelError(f"model file {file!r} cannot be reached: {error}", code=ErrorCode.MODEL_NOT_FOUND) from error
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        inside = sorted(name for name in os.listdir(file) if suffix_of(name) in installed_suffixes())[:5]
        raise ModelError(
            f"{file!r} is a folder, not a model file",
            code=ErrorCode.MODEL_NOT_FOUND,
            hint=f"models in it: {', '.join(inside)}" if inside else "give the path of the file itself",
        )
    where = "" if os.path.isabs(file) else f" (looked in {os.getcwd()})"
    raise ModelError(
        f"{file!r} is not a regular file" if mode else f"model file {file!r} does not exist{where}",
        code=ErrorCode.MODEL_NOT_FOUND,
        hint=f"did you mean {' or '.join(near)}?" if (near := _close_names(file)) and not mode else "check the path",
        path=file,
    )


def _close_names(file: str) -> list[str]:
    """Return model files beside a missing one whose names are like its name."""
    with contextlib.suppress(OSError):  # the folder is missing too, or may not be read
        suffix = suffix_of(file)
        names = {
            os.path.splitext(near)[0]: near for near in os.listdir(os.path.dirname(file) or ".") if suffix_of(near) == suffix
        }
        # A suffix that all share would make them alike.
        return [names[near] for near in close_names(os.path.splitext(os.path.basename(file))[0], names)]
    return []
