"""Call a function that others registered for an operator, and say whose it is when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ground.errors import DovetailError, ErrorCode, LimitError, ModelError
from ..ground.foreign_text import described as text_of
from ..ground.host_exceptions import is_of_host
from ..ground.records import NamedTuple
from ..ground.registered_translations import Function, described
from .graph import Graph
from .layer import Layer, OutputSlot


class TranslationCall(NamedTuple):
    """One operator of a model that a registered function is asked for.

    Attributes:
        operator: What to call it: its name, its kind, its version.
        argument: What the documentation calls what the function is handed.
        function: The function.
        network: Where its layers go.
        details: What errors have in `details`, besides the function.
        refusals: What the function raises to say that it does not translate the operator.
    """

    operator: str
    argument: str
    function: Function
    network: Graph
    details: dict[str, Any]
    refusals: tuple[type[Exception], ...]

    def outputs(self, handed: Any) -> list[OutputSlot | None]:
        """Return what the function makes of what it is handed: one slot for each output.

        Raises:
            Exception: One of `refusals`.
            ModelError: It failed or returned something else (`OPERATOR_FAILED`), or it met an error
                of dovetail's, which keeps its class and code.
        """
        try:
            return self._checked(self.function(handed))
        except (MemoryError, LimitError):
            raise
        except Exception as error:
            if isinstance(error, self.refusals) or is_of_host(error):
                raise
            raise self._failed(error) from error

    def error(self, what: str, hint: str) -> ModelError:
        """Build the error for what the function did."""
        return ModelError(f"{self._whose()} {what}", code=ErrorCode.OPERATOR_FAILED, hint=hint, **self._details())

    def _checked(self, results: Any) -> list[OutputSlot | None]:
        listed = [results] if isinstance(results, OutputSlot | None) else results
        is_listed = isinstance(listed, Sequence) and not isinstance(listed, str | bytes)
        for one in listed if is_listed else [listed]:
            if one is None and results is not None:
                continue  # an output that is not computed
            if not isinstance(one, OutputSlot):
                said = "None" if one is None else f"a {type(one).__name__}"
                hint = "return the layer's `output`, or its `outputs`" if isinstance(one, Layer) else self._slots_wanted()
                raise self.error(f"returned {said}, expected an output slot", hint)
            if one.layer.name not in self.network or self.network.layer(one.layer.name) is not one.layer:
                what = f"returned {one.name!r}, a slot of another network"
                raise self.error(what, f"add layers to `{self.argument}.network`")
        return list(listed)

    def _slots_wanted(self) -> str:
        return (
            f"return the slot that `{self.argument}.network` gave for the last layer, "
            f"or one for each output of the {self.argument}"
        )

    def _failed(self, error: Exception) -> ModelError:
        if not isinstance(error, DovetailError):
            return self.error(f"failed: {text_of(error)}", "its traceback is chained to this error")
        if error.code == ErrorCode.OPERATOR_FAILED and isinstance(error, ModelError):
            return error
        kind = type(error) if isinstance(error, ModelError) else ModelError
        if kind.__module__ != ModelError.__module__:  # a class of somebody else's may be made in another way
            kind = ModelError
        details = {**error.details, **self._details()}
        return kind(f"{self._whose()} failed: {error.message}", code=error.code, hint=error.hint, **details)

    def _whose(self) -> str:
        return f"{self.operator}: the function {described(self.function)} that is registered for it"

    def _details(self) -> dict[str, Any]:
        return {**self.details, "function": described(self.function)}
