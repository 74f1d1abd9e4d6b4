"""The process in which guarded cases run: a kernel that leaves its tensors ends it, and `search` goes on with the next one."""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from typing import Any

from ..child import operators_of
from ..endings import NotApplicable
from ..processes import teller
from ..subject import Settings, Subject, open_target
from .cases import Cases


def main(orders: dict[str, Any]) -> None:
    """Run cases and tell of each when it begins and how it ended.

    Args:
        orders: What `search` wants; see `Wanted` there.
    """
    faulthandler.enable(all_threads=True)
    tell = teller(int(orders["descriptor"]))
    settings = Settings(options=orders["options"], seed=orders["seed"], operators=operators_of(orders["operators"]))
    deadline = None if orders["seconds"] is None else time.monotonic() + orders["seconds"]
    with Subject(open_target(orders["target"]), settings) as subject:
        tell({"event": "opened", "id": subject.id})
        cases = Cases(subject, orders["taken"])
        try:
            if orders["taken"] is None and any(id.startswith("operator/") for id in orders["cases"]):
                tell({"event": "taken", "kinds": cases.taken})
        except NotApplicable:
            pass  # said of each case that is skipped
        for id in orders["cases"]:
            if deadline is not None and time.monotonic() > deadline:
                tell({"event": "late", "case": id})
                return
            try:
                case = cases.make(id)
            except NotApplicable as reason:
                tell({"event": "skipped", "case": id, "text": str(reason)})
                continue
            tell({"event": "begin", "case": id, "text": case.text})
            tell({"event": "end", "case": id, "text": cases.run(case)})
    tell({"event": "done"})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
