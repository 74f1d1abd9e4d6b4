"""The process in which checks run, so that a backend crash takes only one check with it.

See `supervisor.py`.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from .cases import Operator
from .checks import Check, all_checks
from .endings import Event
from .processes import teller
from .runner import perform
from .subject import Settings
from .target import open_target


def main(orders: dict[str, Any]) -> None:
    """Run checks on the main thread; write events to a file descriptor, a line of JSON each.

    Which check is next is asked by the event "ready", and answered by its id; an empty line is the
    end.

    Args:
        orders: What `supervisor` wants; see `Orders` there.
    """
    faulthandler.enable(all_threads=True)
    tell = teller(int(orders["descriptor"]))
    try:
        target = open_target(orders["target"])
        operators = operators_of(orders["operators"])
    except BaseException as error:  # a backend that ends the process while it is imported must be reported too
        tell({"event": "refused", "text": f"{type(error).__name__}: {error}"})
        return
    seconds = orders["seconds"]
    settings = Settings(
        options=orders["options"],
        seed=orders["seed"],
        deadline=None if seconds is None else time.monotonic() + seconds,
        cautious=orders["cautious"],
        operators=operators,
        tolerate=tuple(orders["tolerate"]),
        late_failure=orders["late_failure"],
        bit_exact=orders["bit_exact"],
        isolate=orders["isolate"],
    )
    tell({"event": "opened", "id": str(target.backend.id), "device": target.described_device})
    by_id: dict[str, Check] = {check.id: check for check in all_checks()}
    for id in _ids(int(orders["answers"]), tell):
        tell({"event": "begin", "check": id})
        tell(perform(by_id[id], target, settings, tell))
    tell({"event": "done"})


def _ids(answers: int, tell: Callable[[Event], None]) -> Iterator[str]:
    with open(answers, encoding="utf-8", closefd=False) as lines:
        while True:
            tell({"event": "ready"})
            id = lines.readline().strip()
            if not id:
                return
            yield id


def operators_of(modules: list[str]) -> tuple[Operator, ...]:
    """Import a vendor's operator modules.

    Raises:
        ImportError: One is not there, or holds no `OPERATOR`.
    """
    found = []
    for module in modules:
        operator = getattr(import_module(module), "OPERATOR", None)
        if not isinstance(operator, Operator):
            raise ImportError(f"module {module!r} has no OPERATOR of type dovetail_sdk.conformance.cases.Operator")
        found.append(operator)
    return tuple(found)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
