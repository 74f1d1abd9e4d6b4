"""What belongs to the process that made it, and says so when it is to be copied or pickled."""

from __future__ import annotations

from typing import Any, NoReturn


class FixedToProcess:
    """Base of what holds plans, threads or devices.

    Attributes:
        elsewhere: What to do instead, for the error.
    """

    __slots__ = ()
    elsewhere = ""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise refusal(self, self.elsewhere)


def refusal(what: object, elsewhere: str) -> TypeError:
    """Return the error for what is to be copied or pickled, of the type that `pickle` raises."""
    return TypeError(
        f"{type(what).__name__} cannot be copied or pickled, as it belongs to the process that made it; {elsewhere}"
    )
