"""List installed distributions and searched folders, as candidates in a fixed order.

Listing runs none of their code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..contract.abi_version import ABI_VERSION, abi_refusal
from ..contract.backend_id import BackendId
from ..ground.errors import BackendError
from ..ground.foreign_text import described, shown
from ..ground.host_exceptions import is_of_host
from ..ground.settings import SearchFolder, search_folders, trusted_paths
from .candidates import Candidate
from .entry_points import Offer, offers
from .manifest import find_manifest
from .reasons import ReasonCode, Refused

if TYPE_CHECKING:
    from .scanning import FolderReport


def installed(group: str) -> list[Candidate]:
    """List what distributions offer."""
    return [_versioned(_of(offer)) for offer in offers(group)]


def scanned(folders: Sequence[SearchFolder], trusted: Sequence[str]) -> list[FolderReport]:
    """Search the folders of the caller, then those of the environment and the configuration."""
    wanted = [*folders, *search_folders()]
    if not wanted:
        return []
    from .scanning import search

    reports = search(wanted, [*trusted, *trusted_paths()])
    for report in reports:
        report.candidates = [_versioned(_identified(candidate)) for candidate in report.candidates]
    return reports


def duplicates(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Return the candidates that share an id, or whose ids differ only in case.

    People take such ids for one another.
    """
    by_id: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        is_named = candidate.id and (candidate.refusal is None or candidate.refusal.code is not ReasonCode.BAD_ID)
        if is_named:
            by_id.setdefault(candidate.id.casefold(), []).append(candidate)
    return [same for same in by_id.values() if len(same) > 1]


def _of(offer: Offer) -> Candidate:
    candidate = Candidate(offer.name, offer.value, offer.distribution, offer.version, offer.value)
    if offer.problem:
        return candidate._replace(refusal=Refused(ReasonCode.BAD_METADATA, offer.problem))
    candidate = _identified(candidate)
    if candidate.refusal is not None:
        return candidate
    try:
        fields, folder = find_manifest(offer.module, offer.name)
    except Refused as refusal:
        return candidate._replace(path=refusal.path, refusal=refusal)
    except Exception as error:  # a value that is no object reference, or an import hook of somebody else that fails
        if is_of_host(error):
            raise
        text = f"its entry point {shown(offer.value)} cannot be read: {described(error)}"
        return candidate._replace(refusal=Refused(ReasonCode.ENTRY_POINT_BROKEN, text))
    return candidate._replace(manifest=fields, path=folder)


def _identified(candidate: Candidate) -> Candidate:
    if candidate.refusal is not None:
        return candidate
    try:
        BackendId(candidate.id)
    except BackendError as error:
        text = f"{shown(candidate.id)} is not a backend id"
        return candidate._replace(refusal=Refused(ReasonCode.BAD_ID, text, hint=error.hint or "", path=candidate.path))
    return candidate


def _versioned(candidate: Candidate) -> Candidate:
    fields: Mapping[str, Any] | None = candidate.manifest
    if candidate.refusal is not None or fields is None or "abi" not in fields:
        return candidate
    theirs = (fields["abi"][0], fields["abi"][1])
    text = abi_refusal(theirs)
    if not text:
        return candidate
    code = ReasonCode.ABI_MAJOR if theirs[0] != ABI_VERSION[0] else ReasonCode.ABI_MINOR_NEWER
    who = candidate.distribution or candidate.origin
    hint = f"install versions of {who} and dovetail-core that fit each other"
    return candidate._replace(refusal=Refused(code, text, hint=hint, path=candidate.path))
