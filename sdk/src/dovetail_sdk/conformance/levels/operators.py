"""Level 2: operators compute rightly, in every element type and within every claimed limit."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import DType
from dovetail.contract.claims import Claim

from ..cases import Operator
from ..catalogue import all_operators, kinds
from ..checks import check
from ..endings import NotApplicable
from ..reached import unreached
from ..subject import Subject
from ..trials import Trial, prepare, try_all
from ..variants import variants

_ENOUGH = 8
_OPERATOR_SECONDS = 900.0
"""For a step, on a device whose compiler may take half a minute for an operation."""


@check(level=2, title="computes what it claims", seconds=_OPERATOR_SECONDS, each=kinds)
def computes(subject: Subject, kind: str) -> None:
    """Try a kind in every element type: plain, edges, and both sides of each limit it claims.

    Troubleshooting: The text of a case names the layer, the worst element, what came out, what
    should have, and the allowed difference with the arithmetic behind it. Repeat one case with
    `--only` and the kind; the seed makes it the same. A "false claim" means that manifest and
    `supports` disagree: correct one of them.
    """
    judge_operator(subject, all_operators(subject.settings.operators)[kind])


@check(level=2, title="computes kinds of its own as they should be", seconds=_OPERATOR_SECONDS)
def computes_further_kinds(subject: Subject) -> None:
    """Try the kinds for which the vendor brought operator modules.

    Troubleshooting: As for `operators.computes`; how these kinds are judged is in your own operator
    modules.
    """
    further = [operator for operator in subject.settings.operators if operator.kind not in kinds()]
    if not further:
        raise NotApplicable("no further operator modules were given")
    for operator in further:
        judge_operator(subject, operator)


@check(level=2, title="claims only what can be judged")
def claims_are_judged(subject: Subject) -> None:
    """Show claimed kinds and element types that no operator module can judge; they fail nothing.

    Troubleshooting: Bring an operator module for a kind of your own, see
    `dovetail_sdk.conformance.cases`. For a standard kind check the spelling of the kind and its
    element types in the manifest.
    """
    if not subject.claims:
        raise NotApplicable("the manifest claims nothing")
    operators = all_operators(subject.settings.operators)
    for kind, claims in subject.claims.items():
        for dtype in dict.fromkeys(dtype for claim in claims for dtype in claim.dtypes):
            if kind not in operators or dtype not in operators[kind].dtypes:
                subject.not_judged(kind, str(dtype))


def judge_operator(subject: Subject, operator: Operator) -> None:
    """Try one operator in all its element types.

    Raises:
        ConformanceFailure: An answer of `supports` is against the contract.
        NotApplicable: The backend takes none of the cases, and claims none.
    """
    asked = 0
    refusals: dict[str, str] = {}
    for deviation in subject.promises.deviations:
        if deviation.kind == operator.kind:
            subject.declared(deviation, looked_for=True)
    for dtype in operator.dtypes:
        asked += _judge_dtype(subject, operator, dtype, refusals)
    if not asked:
        why = next(iter(refusals.values()), "no case could be made")
        raise NotApplicable(f"{operator.kind} is refused in every element type that was tried: {why}")


def _judge_dtype(subject: Subject, operator: Operator, dtype: DType, refusals: dict[str, str]) -> int:
    """Try one operator in one element type; returns how many cases ran or should have."""
    claims = subject.claims_of(operator.kind)
    trials = ask_all(subject, operator, dtype, claims)
    claimed = {trial.id for trial in trials if subject.claimed(trial.layer)}
    accepted = [trial for trial in trials if trial.is_taken]
    refused = [trial for trial in trials if not trial.is_taken]
    broken = [trial for trial in refused if trial.id in claimed]
    for trial in broken:
        said = f"[{trial.support.code}] {trial.support.reason}"
        subject.failed_case(trial.id, f"false claim: the manifest claims {trial.described}, but supports() refuses it: {said}")
    refusals.update({trial.support.code: trial.support.reason for trial in refused})
    subject.count(
        operator.kind,
        str(dtype),
        claimed=len(claimed),
        refused=len(refused) - len(broken),
        failed=len(broken),
    )
    if any(dtype in claim.dtypes for claim in claims):
        if not claimed:
            subject.not_judged(operator.kind, str(dtype))
        else:
            for what, reason in unreached(operator, claims, dtype, trials, subject.device):
                subject.not_judged(operator.kind, str(dtype), what, reason)
    _tell_bits(subject, operator, dtype, accepted)
    problems: dict[str, str] = {}
    for passes in (False, True) if subject.rewrites else (False,):
        ready = [trial for trial in accepted if trial.id not in problems]
        problems |= _try(subject, operator, dtype, ready, passes=passes)
    outside = [trial for trial in accepted if subject.claims is not None and trial.id not in claimed]
    right = [trial for trial in outside if trial.id not in problems]
    if right:
        subject.count(operator.kind, str(dtype), unclaimed=len(right))
        subject.note(
            f"{operator.kind} of {dtype}: {len(right)} cases outside the claims run and are right: {right[0].described}"
        )
    return len(accepted) + len(broken)


def ask_all(subject: Subject, operator: Operator, dtype: DType, claims: Sequence[Claim]) -> list[Trial]:
    """Make the cases and ask about them.

    Of a kind that a manifest with claims leaves out, a few tell that it is refused.
    """
    subject.step(f"{operator.kind} of {dtype}: asking")
    trials: list[Trial] = []
    for variant in variants(operator, dtype, claims):
        trial = prepare(subject, operator, dtype, variant)
        if trial is not None:
            trials.append(trial)
        if subject.claims is not None and not claims and len(trials) == _ENOUGH and not any(one.is_taken for one in trials):
            break
    return trials


def _tell_bits(subject: Subject, operator: Operator, dtype: DType, trials: Sequence[Trial]) -> None:
    """Count what is judged to the bit, by standard; tell which promised bits none defines."""
    kind, unheld = operator.kind, dict[str, list[str]]()
    for trial in trials:
        held, promised = trial.rule.held_to(trial.case), trial.rule.standard
        subject.count(kind, str(dtype), exact=int(bool(held)))
        if held and (promised is not None or trial.rule.bit_exact):
            subject.held_to(kind, str(dtype), promised or held)
        elif promised is not None:
            unheld.setdefault(promised, []).append(trial.id.rpartition("/")[2])
    for standard, cases in unheld.items():
        subject.not_judged(
            kind, str(dtype), f"bits by the standard {standard!r}", f"it defines none in cases such as {cases[0]}"
        )


def _try(subject: Subject, operator: Operator, dtype: DType, trials: list[Trial], *, passes: bool) -> dict[str, str]:
    problems: dict[str, str] = {}
    for outcome in try_all(subject, trials, passes=passes):
        how = " after the optimizer and the backend have rewritten it" if passes else ""
        text, deviation = f"{outcome.trial.described}{how}: {outcome.finding.text}", outcome.finding.deviation
        if outcome.problem:
            problems[outcome.trial.id] = outcome.problem
            subject.failed_case(outcome.trial.id, text)
        elif deviation is not None:
            subject.deviating_case(outcome.trial.id, deviation, text)
        ran = {"run": int(outcome.ran), "folded": int(not outcome.ran), "deviating": int(deviation is not None)}
        subject.count(operator.kind, str(dtype), **({} if passes else ran), failed=int(bool(outcome.problem)))
    return problems
