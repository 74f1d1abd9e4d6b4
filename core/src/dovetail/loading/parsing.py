"""Turn a model file into a network, by the parser that is installed for its suffix.

A distribution offers a parser by an entry point of the group ``dovetail.parsers``, whose name is a
file suffix without its dot and whose value is an `IParser` class.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..discovery import Offer, forget, load_object, offers
from ..ground.close_names import close_names
from ..ground.errors import DovetailError, ErrorCode, ModelError
from ..ground.host_exceptions import is_of_host
from ..ground.limits import Limits, limited
from .held_files import HeldFiles, stamp_of

if TYPE_CHECKING:
    from ..layers.network import Network

GROUP = "dovetail.parsers"


def parse(model: str | os.PathLike[str] | Any, *, limits: Limits | None = None) -> Network:
    """Read a model.

    Args:
        model: The path of a file, the bytes of one, a binary file that is open for reading, or a
            model as a package for its format holds it, such as an `onnx.ModelProto`.
        limits: How much it may take.

    Raises:
        OptionError: It is none of these (`OPTION_INVALID`).
        ModelError: The file does not exist (`MODEL_NOT_FOUND`), no parser is installed for its
            suffix (`MODEL_FORMAT_UNKNOWN`), or the parser refuses it.
        LimitError: It asks for more than its limits allow (`LIMIT_EXCEEDED`), or takes longer
            (`TIMEOUT`).
    """
    with limited(limits) as load:
        before = load.memory
        if isinstance(model, str | os.PathLike):
            network = _parse(model)
        else:
            from .contents import parse_content

            network = parse_content(model)
        missing = network.bytes_of_constants() - (load.memory - before)
        if missing > 0:  # a parser that counts nothing itself
            load.take_memory(missing, f"the constants of network {network.name!r}")
        return network


def _parse(path: str | os.PathLike[str]) -> Network:
    file = os.fsdecode(path)
    _check_readable(file)
    suffix = _suffix(file)
    offer = _offer_for(file, suffix)
    return parsed(offer, suffix, created(offer, suffix).parse, file, file)


def parsed(offer: Offer, suffix: str, parse: Any, model: Any, name: str) -> Network:
    """Have a parser read something; the name is for errors."""
    from ..layers.network import Network

    try:
        network = parse(model)
    except DovetailError:
        raise
    except RecursionError as error:
        raise ModelError(f"{name} is nested too deeply to be read", hint="it is damaged, or was made to be") from error
    if not isinstance(network, Network):
        raise _broken(offer, suffix, f"it returned {type(network).__name__}, not a Network")
    return network


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
        return _suffix(self._path)

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
                (`MODEL_NOT_FOUND`).
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
            return parse(self.place)

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


def installed_suffixes() -> tuple[str, ...]:
    """List the suffixes that there are parsers for, in order, without importing any."""
    return tuple(sorted({offer.name.lower() for offer in offers(GROUP) if offer.name}))


def _suffix(file: str) -> str:
    return os.path.splitext(file)[1].lower().removeprefix(".")


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
        inside = sorted(name for name in os.listdir(file) if _suffix(name) in installed_suffixes())[:5]
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
        names = [near for near in os.listdir(os.path.dirname(file) or ".") if _suffix(near) == _suffix(file)]
        return close_names(os.path.basename(file), names)
    return []


def _offer_for(file: str, suffix: str) -> Offer:
    matching = _matching(suffix)
    if not matching:
        forget()  # an installation may have been under way when all was looked through
        matching = _matching(suffix)
    if not matching:
        known = installed_suffixes()
        what = f".{suffix} files" if suffix else "files without a suffix"
        raise ModelError(
            f"no parser is installed for {what} ({os.path.basename(file)})",
            code=ErrorCode.MODEL_FORMAT_UNKNOWN,
            # Names of packages are not made up from the suffix: whoever registers such a name would
            # be installed.
            hint=f"there are parsers for {', '.join(f'.{name}' for name in known)}; others come by pip"
            if known
            else "no parser is installed at all; this brings the usual ones: pip install dovetail",
            suffix=suffix,
            installed=list(known),
        )
    if len({offer.value for offer in matching}) > 1:
        raise ModelError(
            f"more than one parser is installed for .{suffix} files: {'; '.join(offer.origin for offer in matching)}",
            code=ErrorCode.MODEL_FORMAT_UNKNOWN,
            hint="uninstall all but one",
        )
    return matching[0]


def _matching(suffix: str) -> list[Offer]:
    return [offer for offer in offers(GROUP) if suffix and offer.name.lower() == suffix]


def created(offer: Offer, suffix: str) -> Any:
    """Return the parser that a distribution offers."""
    try:
        offered = load_object(offer.value)
        parser = offered() if isinstance(offered, type) else offered
    except BaseException as error:  # SystemExit too: a parser must not end somebody else's program
        if is_of_host(error) or isinstance(error, MemoryError):
            raise
        raise _broken(offer, suffix, f"{type(error).__name__}: {error}") from error
    if not callable(getattr(parser, "parse", None)):
        raise _broken(offer, suffix, f"{offer.value} has no method parse(path)")
    return parser


def _broken(offer: Offer, suffix: str, what: str) -> ModelError:
    return ModelError(
        f"the parser for .{suffix} files, {offer.origin}, is broken: {what}",
        code=ErrorCode.MODEL_FORMAT_UNKNOWN,
        hint=f"reinstall {offer.distribution}, or tell its makers",
        suffix=suffix,
    )
