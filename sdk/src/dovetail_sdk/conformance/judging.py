"""How far a result may be from what must come out: the one place where that is decided.

A case brings the tolerance that its arithmetic needs and, where standards define the bits, those
bits. Which of them applies depends on what the backend promises in its manifest
(`dovetail.contract.promises`) and on what the run asks for:

- bits that are promised by a standard are held to that standard's bits, with zero tolerance;
- `--bit-exact` holds everything else for which bits are defined to those of any standard;
- all other results have the tolerance of the case;
- a difference beyond that, within a deviation that the manifest declares for such layers, is no
  failure: it is reported as the deviation. A larger one fails.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail import Device, DType, Layer
from dovetail.contract.promises import KIND, Deviation, Promises

from .cases import Array, Bits, Case, Tolerance
from .comparing import mismatch, readable, to_bfloat16


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with the results of a case.

    Attributes:
        text: The first difference beyond what is allowed; empty if there is none.
        deviation: What was declared that explains it; None if nothing does.
    """

    text: str = ""
    deviation: Deviation | None = None

    @property
    def problem(self) -> str:
        """The difference if nothing explains it."""
        return "" if self.deviation is not None else self.text


RIGHT = Finding()


@dataclass(frozen=True, slots=True)
class Rule:
    """How the results of one layer are judged.

    Attributes:
        standard: By which its bits are promised; None if they are not.
        bit_exact: The run asks for bits even where they are not promised.
        deviations: Those that the manifest declares for it.
    """

    standard: str | None = None
    bit_exact: bool = False
    deviations: Sequence[Deviation] = ()

    def judge(self, case: Case, results: Sequence[Array], dtypes: Sequence[DType]) -> Finding:
        """Compare every output with what must come out; the first difference is found."""
        for index, (got, dtype) in enumerate(zip(results, dtypes, strict=True)):
            text = self._difference(case, index, got, dtype)
            if text:
                explained = next((one for one in self.deviations if _explains(one, case, index, got, dtype)), None)
                return Finding(f"output {index}: {text}" if len(results) > 1 else text, explained)
        return RIGHT

    def held_to(self, case: Case) -> str:
        """Name the standards whose bits a case is held to; empty if an output has a tolerance."""
        names = dict.fromkeys(" or ".join(self._standards(case, index)) for index in range(len(case.expected)))
        return "" if not names or "" in names else next((name for name in names if name != KIND), KIND)

    def _standards(self, case: Case, index: int) -> list[str]:
        """Return the standards of any of which an output must have the bits."""
        if case.tolerances[index].is_exact:
            return [KIND]
        known = case.bits_of(index)
        if self.standard is not None:
            return [self.standard] if self.standard in known else []
        return list(known) if self.bit_exact else []

    def _difference(self, case: Case, index: int, got: Array, dtype: DType) -> str:
        text = mismatch(got, case.expected[index], case.tolerances[index], dtype)
        standards = self._standards(case, index)
        if text or KIND in standards or not standards:
            return text
        known = case.bits_of(index)
        wrong = [_wrong_bits(known[name], name, got, dtype) for name in standards]
        return "" if "" in wrong else "; ".join(wrong)


def rule_of(promises: Promises, layer: Layer, device: Device, *, bit_exact: bool) -> Rule:
    """Return how the results of a layer are judged.

    Args:
        promises: What the manifest promises.
        layer: All of its infos are concrete.
        device: What computes it.
        bit_exact: Ask for bits even where they are not promised.
    """
    return Rule(promises.standard_of(layer, device), bit_exact, promises.deviations_of(layer, device))


def _wrong_bits(bits: Bits, name: str, got: Array, dtype: DType) -> str:
    settled = got if bits.undefined is None else np.where(bits.undefined, bits.values, got)
    return mismatch(np.asarray(settled, got.dtype), bits.values, Tolerance(reason=f"bit-exact by {name}"), dtype)


def _explains(deviation: Deviation, case: Case, index: int, got: Array, dtype: DType) -> bool:
    expected, plain = case.expected[index], case.tolerances[index]
    if got.shape != expected.shape or got.dtype != dtype.numpy:
        return False
    join = operator.add if dtype.is_float else max  # floats are rounded besides; integers are off by whole numbers
    relative, absolute = join(plain.relative, deviation.relative), join(plain.absolute, deviation.absolute)
    if deviation.nonfinite and dtype.is_float:
        best = expected if expected.dtype == got.dtype else _as_stored(expected, dtype)
        got = np.where(np.isfinite(readable(expected, dtype)), got, best)
    return not mismatch(got, expected, Tolerance(relative, absolute, deviation.what), dtype)


def _as_stored(expected: Array, dtype: DType) -> Array:
    with np.errstate(over="ignore"):
        return to_bfloat16(expected) if dtype is DType.BFLOAT16 else expected.astype(dtype.numpy)
