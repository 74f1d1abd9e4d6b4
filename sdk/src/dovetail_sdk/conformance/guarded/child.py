"""The process in which guarded cases run.

A kernel that leaves its tensors ends it, and `search` goes on with the next one.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from typing import Any

from dovetail import DovetailError

from ..child import operators_of
from ..endings import ConformanceFailure, NotApplicable
from ..processes import teller
from ..subject import Settings, Subject
from ..target import open_target
from .cases import Cases


def main(orders: dict[str, Any]) -> None:
    """Run cases and tell of each when it begins and how it ended.

    Args:
        orders: What `search` wants; see `Wanted` there.
    """
    faulthandler.enable(all_threads=True)
    tell = teller(int(orders["descriptor"]))
    deadline = None if orders["seconds"] is None else time.monotonic() + orders["seconds"]
    try:
        subject = _opened(orders)
    except (DovetailError, ConformanceFailure) as error:
        tell({"event": "refused", "text": str(error)})
        return
    except BaseException as error:  # a backend that ends the process while it is imported must be reported too
        tell({"event": "refused", "text": f"{type(error).__name__}: {error}"})
        return
    with subject:
        tell({"event": "opened", "id": subject.id})
        cases = Cases(subject, orders["taken"])
        unanswered = ""
        try:
            if orders["taken"] is None and any(id.startswith("operator/") for id in orders["cases"]):
                tell({"event": "taken", "kinds": cases.taken})
        except NotApplicable:
            pass  # said of each case that is skipped
        except ConformanceFailure as failure:
            unanswered = failure.text
        for id in orders["cases"]:
            if deadline is not None and time.monotonic() > deadline:
                tell({"event": "late", "case": id})
                return
            try:
                if unanswered and id.startswith("operator/"):  # to ask again for each case takes long
                    raise ConformanceFailure(unanswered)
                case = cases.make(id)
            except NotApplicable as reason:
                tell({"event": "skipped", "case": id, "text": str(reason)})
                continue
            except ConformanceFailure as failure:
                tell({"event": "unmade", "case": id, "text": failure.text})
                continue
            tell({"event": "begin", "case": id, "text": case.text})
            tell({"event": "end", "case": id, "text": cases.run(case)})
    tell({"event": "done"})


def _opened(orders: dict[str, Any]) -> Subject:
    """Open the backend with its options.

    Raises:
        DovetailError: It cannot be loaded.
        ConformanceFailure: The operator modules cannot be imported, or the options cannot be built.
    """
    try:
        operators = operators_of(orders["operators"])
    except Exception as error:
        raise ConformanceFailure(f"the operator modules cannot be imported: {type(error).__name__}: {error}") from error
    settings = Settings(options=orders["options"], seed=orders["seed"], operators=operators)
    subject = Subject(open_target(orders["target"]), settings)
    subject.built_options  # noqa: B018  # asked here, so that a wrong option is told once
    return subject


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
