"""How several checks become one answer."""

from __future__ import annotations

from dovetail import Support


def first_refusal(*refusals: Support | None) -> Support:
    """Return the first refusal, or yes if there is none.

    Not ``a or b``: a refusal is false, so that would pass over it.
    """
    return next((refusal for refusal in refusals if refusal is not None), Support.yes())
