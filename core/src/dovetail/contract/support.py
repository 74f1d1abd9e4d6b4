"""The answer to "can you run this layer?"."""

from __future__ import annotations

from typing import NoReturn

from ..ground.records import NamedTuple


class Support(NamedTuple):
    """Answer to "can you run this layer?".

    Read `supported`: an answer has no truth value, so that none is mistaken for a yes.

    Attributes:
        supported: Yes or no.
        code: For a no: what kind of refusal, a short stable word such as "dtype", "kind",
            "attribute", "shape".
        reason: For a no: a sentence for people, with what was found and what would be taken.
        attribute: The offending attribute or input, if one is to blame.
    """

    supported: bool
    code: str = ""
    reason: str = ""
    attribute: str | None = None

    def __bool__(self) -> NoReturn:
        raise TypeError("a Support has no truth value; read its attribute 'supported'")

    @classmethod
    def yes(cls) -> Support:
        """Accept the layer."""
        return _YES

    @classmethod
    def no(cls, code: str, reason: str, attribute: str | None = None) -> Support:
        """Refuse the layer; a refusal without a code and a reason is against the contract."""
        return cls(False, code, reason, attribute)


_YES = Support(True)
