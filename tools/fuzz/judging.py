"""Whose fault a difference is: bad conditioning's, extreme numbers', the peer's, or ours."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .comparing import Difference, difference, moved
from .mutants import Mutant, as_model
from .peers import OnnxEvaluator
from .perturbing import perturb, perturbed
from .unsettled import has_extremes, is_unsettled
from .verdicts import Verdict

Answers = Mapping[str, np.ndarray]

NUMERIC = ("values", "integers", "non-finite")
PERTURBATIONS = 6
CONDITION = 256
"""How much further than by a change of all numbers in the last bits two answers may be apart."""


class Judge:
    """Judges what one mutant answered in one run.

    Args:
        mutant: What ran.
        path: The file that it lies in.
        feeds: What it was fed.
        answers: What the first configuration answered.
        run: Loads a file in the first configuration and runs it.
        stage: Told of each step before it begins.
    """

    def __init__(
        self,
        mutant: Mutant,
        path: Path,
        feeds: Mapping[str, np.ndarray],
        answers: Answers,
        run: Callable[[Path, Mapping[str, np.ndarray]], Answers],
        stage: Callable[[str], None],
    ) -> None:
        self._mutant, self._path, self._feeds, self._answers = mutant, path, feeds, answers
        self._run = run
        self._stage = stage
        self._model: Any = as_model(mutant)
        self._third: Answers | None = None

    def verdict(self, found: Difference, theirs: Answers, is_peer: bool) -> Verdict:
        """Return `DIFFERENT`, or what explains the difference.

        Args:
            found: How `theirs` differ from the answers of the first configuration.
            theirs: Answers of another configuration, or of a peer.
            is_peer: Which of the two.
        """
        if self._model is None:
            return Verdict.DIFFERENT
        numeric = found.kind in NUMERIC
        if numeric and self._is_unstable(found):
            return Verdict.UNSTABLE
        if is_peer and self._third_agrees(found, self._answers):
            return Verdict.PEER_WRONG
        if numeric and has_extremes(self._model, self._feeds):
            # float32 overflows where float64 does not: one of our configurations may do as the
            # definition's float32 does, or overflow in another order of sums, also before it rounds
            # to integers. A wrong finite number is none of that.
            overflows = found.kind in ("non-finite", "integers") or self._third_agrees(found, theirs, unknown=True)
            return Verdict.OPEN if is_peer or overflows else Verdict.DIFFERENT
        return Verdict.OPEN if is_peer and is_unsettled(self._model, self._feeds, found) else Verdict.DIFFERENT

    def _third_agrees(self, found: Difference, answers: Answers, unknown: bool = False) -> bool:
        """Tell whether ONNX's own evaluator gives the differing output as these answers do.

        The answer is `unknown` where it cannot tell.
        """
        if self._third is None:
            self._stage("peer")  # whatever it does, it is not ours
            self._third = OnnxEvaluator().run(self._path, self._feeds) or {}
        if found.output not in self._third or found.output not in answers:
            return unknown
        return difference({"": answers[found.output]}, {"": self._third[found.output]}) is None

    def _is_unstable(self, found: Difference) -> bool:
        """Tell whether last-bit changes of all numbers move the answer by the difference found."""
        self._stage("perturbing")
        for turn in range(PERTURBATIONS):
            luck = random.Random(turn)
            model: Any = as_model(self._mutant)
            perturb(luck, model, rounding=turn % 2 == 1)
            self._path.write_bytes(model.SerializeToString())
            try:
                after = self._run(self._path, {name: perturbed(luck, value) for name, value in self._feeds.items()})
            except Exception:  # it ran unperturbed: whatever hinders it now, nothing can be told from it
                continue
            finally:
                self._path.write_bytes(self._mutant.data)
            if moved(found, self._answers, after) * CONDITION >= found.amount:
                return True
        return False
