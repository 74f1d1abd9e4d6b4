"""Level 4: kernels stay in their tensors, between inaccessible pages in processes of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..checks import check
from ..endings import BudgetExhausted, ConformanceFailure, NotApplicable
from ..guarded.search import Finding, Wanted, case_ids, search
from ..subject import Subject

OPERATORS = 200
NETWORKS = 25
SECONDS = 20.0
"""For either check: what is left over then is left to `dovetail guarded`."""
_SHOWN = 5


@check(level=4, title="stays inside its tensors, layer by layer", seconds=300)
def layers_stay_inside(subject: Subject) -> None:
    """Run random layers whose tensors, constants and workspaces touch inaccessible pages.

    Each touches one at its end, and at its start.

    Troubleshooting: a kernel read or wrote past an end, wrote to an input or a constant, or read
    memory that nobody wrote. What a vector holds beyond the last element must not be loaded, even
    if it is never used: mask the load or treat the rest by itself. Run one case again with
    `dovetail guarded ID --only operator/12`. Memory that a backend allocates for itself, such as
    packed weights, is not watched: use AddressSanitizer for it.
    """
    _search(subject, case_ids(OPERATORS, 0))


@check(level=4, title="stays inside its tensors, in networks", seconds=300)
def networks_stay_inside(subject: Subject) -> None:
    """Run random networks, mostly rewritten, whose tensors lie alone between inaccessible pages.

    Troubleshooting: as for `guarded.layers_stay_inside`. If the layers are right by themselves,
    look at what was fused and at private layouts: what a replacement says of the size of its
    tensors is all that it gets.
    """
    _search(subject, case_ids(0, NETWORKS))


def _search(subject: Subject, cases: Sequence[str]) -> None:
    if subject.target.name is None:
        raise NotApplicable("it was handed over as an object, which no other process can find")
    seconds = min(SECONDS, subject.seconds_left)
    if seconds <= 0:
        raise BudgetExhausted("the budget is used up")
    wanted = Wanted(
        subject.target.name,
        cases,
        dict(subject.options),
        subject.settings.seed,
        _modules(subject),
        seconds,
        _SHOWN,
    )
    searched = search(wanted, told=subject.step)
    subject.count(run=searched.done)
    for finding in searched.findings:
        subject.failed_case(finding.case, f"{finding.text}: {finding.problem}")
    if searched.findings:
        raise ConformanceFailure(_summary(searched.findings, searched.done))
    if not searched.done:
        raise NotApplicable(next(iter(searched.skipped.values()), "there was no time for any case"))
    if searched.left:
        subject.note(f"{searched.done} of {len(cases)} cases ran within {seconds:.0f} s; `dovetail guarded` runs any number")


def _modules(subject: Subject) -> list[str]:
    """Name the modules that the vendor's operators came from, for another process."""
    own = list(subject.settings.operators)
    return [name for name, module in list(sys.modules.items()) if any(getattr(module, "OPERATOR", None) is one for one in own)]


def _summary(findings: Sequence[Finding], done: int) -> str:
    shown = "\n".join(f"  {one.case}: {one.text}: {one.problem.partition(chr(10))[0]}" for one in findings[:_SHOWN])
    return f"{len(findings)} findings in {done} cases:\n{shown}"
