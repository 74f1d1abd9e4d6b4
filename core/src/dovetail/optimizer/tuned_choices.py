"""What was found is kept, one small file for each choice, and taken by later loads.

A file is a line with the SHA-256 of the rest, and JSON. What is damaged, of another format, or
names a way that the backend does not offer is not used, with a line in the log; what was found for
other files of the backend, other options, another machine or number of threads has another name.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..contract.subgraph import Choice
from ..ground.host_exceptions import is_of_host
from ..ground.kept_files import KeptFiles
from ..ground.logs import Log
from ..ground.records import NamedTuple

if TYPE_CHECKING:
    from .candidate import Assigned
    from .tuned_keys import Surroundings

_log = Log("dovetail")
_FORMAT = 1
_MOST_COMPARED = 64
"""Findings that are looked into to say why none holds."""
_MOST_SHOWN = 80


class Finding(NamedTuple):
    """What measuring one choice said.

    Attributes:
        winner: Name of the fastest way.
        seconds: Time of each way, of one layer.
        facts: What it holds for, for people who look into the file.
    """

    winner: str
    seconds: Mapping[str, float]
    facts: Mapping[str, Any] = {}


class Findings:
    """The findings of this user.

    Safe to use from several processes at once: the last writer of a file stays.
    """

    def __init__(self) -> None:
        self._files = KeptFiles("tuning", lambda problem: _log.info("what was tuned is not used: %s", problem))

    @property
    def folder(self) -> str | None:
        """Where they lie, or None if there is no place for them."""
        return self._files.folder

    def backends(self) -> set[str]:
        """Return the ids of the backends of which something was found, whatever it holds for."""
        return {name.partition("-")[0] for name in self._files.names()}

    def read(self, id: str, key: str, names: Iterable[str]) -> Finding | None:
        """Return what was found, or None if nothing was that can be used.

        Args:
            id: Of the backend.
            key: See `keys`.
            names: The ways that there are.
        """
        name = _file_name(id, key)
        try:
            content = self._files.read(name)
            return None if content is None else _parsed(content, key, set(names))
        except Exception as error:  # whatever stands in a damaged file
            if is_of_host(error):
                raise
            _log.info("what was tuned for %s in %s is not used: %s", id, name, error)
            return None

    def why_not(self, id: str, facts: Mapping[str, Any]) -> str:
        """Say why nothing that was found for a backend holds here.

        Args:
            id: Of the backend.
            facts: What holds here; see `Surroundings`.

        Returns:
            The facts in which the most similar finding differs, such as "device.name: 'A' then, 'B'
            now"; empty if one differs in none, or there is none that can be read.
        """
        here = dict(_flat(facts))
        differences: list[list[str]] = []
        for name in [one for one in self._files.names() if one.partition("-")[0] == id][:_MOST_COMPARED]:
            try:
                there = dict(_flat(json.loads((self._files.read(name) or b"").partition(b"\n")[2])["facts"]))
            except (OSError, ValueError, KeyError, TypeError):
                continue
            then = {fact: value for fact, value in there.items() if fact.partition(".")[0] in facts}
            differences.append(
                [
                    f"{fact}: {_shown(then.get(fact))} then, {_shown(here.get(fact))} now"
                    for fact in sorted(here.keys() | then.keys())
                    if here.get(fact) != then.get(fact)
                ]
            )
        nearest = sorted(differences, key=lambda facts: len(facts))[:1]
        return "; ".join(itertools.chain(*nearest))

    def keep(self, id: str, key: str, finding: Finding) -> str:
        """Remember a finding in place of any other; return why that fails, or an empty text."""
        document = {"format": _FORMAT, "key": key, "winner": finding.winner, "seconds": dict(finding.seconds)}
        body = json.dumps({**document, "facts": dict(finding.facts)}, indent=1).encode()
        try:
            kept = self._files.write(_file_name(id, key), _digest(body) + b"\n" + body)
        except OSError as error:
            return f"{error.strerror}: {self.folder}"
        return "" if kept else "there is no folder for it; set DOVETAIL_CACHE_DIR"

    def clear(self, ids: Iterable[str] | None = None) -> int:
        """Forget the findings for some backends, or all; return how many findings that were."""
        wanted = None if ids is None else set(ids)
        names = [name for name in self._files.names() if wanted is None or name.partition("-")[0] in wanted]
        return sum(1 for name in names if self._files.remove(name))


class StoredChoices:
    """Chooses what was found earlier; a `Chooser`.

    Args:
        threads: CPU threads that the network will have; None for all usable cores.
    """

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._findings = Findings()
        self._surroundings: dict[Assigned, Surroundings] = {}
        self._refused: set[Assigned] = set()

    @cached_property
    def _backends(self) -> set[str]:
        return self._findings.backends()

    def wants(self, candidate: Assigned) -> bool:
        """Say whether anything was ever tuned for a backend: if not, it need not be asked."""
        return str(candidate.backend.id) in self._backends

    def choose(self, candidate: Assigned, choice: Choice) -> str | None:
        """Return the fastest way found for this very part, backend, machine and thread count."""
        if candidate not in self._surroundings:
            from ..ground.usable_cores import usable_cores
            from .tuned_keys import Surroundings  # where nothing was tuned it is not needed

            self._surroundings[candidate] = Surroundings(candidate, self._threads or usable_cores())
        surroundings = self._surroundings[candidate]
        if surroundings.facts is None:
            return None
        id = str(candidate.backend.id)
        finding = self._findings.read(id, surroundings.key(choice), choice.names)
        if finding is not None:
            return finding.winner
        if candidate not in self._refused:
            self._refused.add(candidate)
            why = self._findings.why_not(id, surroundings.facts)
            if why:
                _log.info("what was tuned for %s is not used here: %s", candidate.label, why)
        return None

    def placed(self, choice: Choice, name: str, layers: tuple[str, ...]) -> None:
        """Need not know."""


def _flat(facts: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield facts that lie in each other by names with dots."""
    if not isinstance(facts, Mapping):
        yield name, facts
        return
    for key, value in facts.items():
        yield from _flat(value, f"{name}.{key}" if name else str(key))


def _shown(fact: Any) -> str:
    text = repr(fact)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _file_name(id: str, key: str) -> str:
    return f"{id}-{key}.json"


def _digest(content: bytes) -> bytes:
    from hashlib import sha256  # which loads OpenSSL; where nothing was tuned it is not needed

    return sha256(content).hexdigest().encode()


def _parsed(content: bytes, key: str, names: set[str]) -> Finding:
    digest, _, body = content.partition(b"\n")
    if digest != _digest(body):
        raise ValueError("it is damaged")
    fields = json.loads(body)
    if fields["format"] != _FORMAT:
        raise ValueError(f"it is of format {fields['format']}, this is {_FORMAT}")
    if fields["key"] != key:
        raise ValueError("it was found for something else")
    seconds = {str(name): float(value) for name, value in fields["seconds"].items()}
    if fields["winner"] not in names or fields["winner"] not in seconds:
        raise ValueError(f"there is no way {fields['winner']!r} to compute it; there are {', '.join(sorted(names))}")
    return Finding(fields["winner"], seconds, fields["facts"])
