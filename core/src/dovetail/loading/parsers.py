"""Find the parsers that are installed, and call them.

A distribution offers a parser by an entry point of the group ``dovetail.parsers``, whose name is a
file suffix without its dot and whose value is an `IParser` class.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..discovery import Offer, forget, load_object, offers
from ..ground.errors import DovetailError, ErrorCode, ModelError
from ..ground.host_exceptions import is_of_host

if TYPE_CHECKING:
    from ..layers.network import Network

GROUP = "dovetail.parsers"


def installed_suffixes() -> tuple[str, ...]:
    """List the suffixes that there are parsers for, in order, without importing any."""
    return tuple(sorted({offer.name.lower() for offer in offers(GROUP) if offer.name}))


def suffix_of(file: str) -> str:
    """Return the suffix of a file without its dot, in small letters."""
    return os.path.splitext(file)[1].lower().removeprefix(".")


def offer_for(file: str, suffix: str) -> Offer:
    """Return the parser that is offered for files of a suffix; raises `ModelError`."""
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


def _broken(offer: Offer, suffix: str, what: str) -> ModelError:
    return ModelError(
        f"the parser for .{suffix} files, {offer.origin}, is broken: {what}",
        code=ErrorCode.MODEL_FORMAT_UNKNOWN,
        hint=f"reinstall {offer.distribution}, or tell its makers",
        suffix=suffix,
    )
