"""What is asked of a compilation, in one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..discovery.registry import default_registry
from ..graph.descriptor import Array
from ..graph.element_types import DType
from ..ground.close_names import suggestion
from ..ground.errors import ErrorCode, OptionError, shown_argument
from ..ground.limits import Limits
from ..ground.progress import Listener
from ..ground.records import Record, field
from .candidate import GivenBack, Registry
from .candidates import BackendLike, Options
from .constraints import Forbid, Require
from .passes.fix_inputs import Shapes, Values
from .policy import FirstWilling, PlacementPolicy

if TYPE_CHECKING:
    from .choosing import Chooser
    from .constant_layers import ConstantEvaluator

DebugCallback = Callable[[str, int, Array], None]
"""Called with a layer's name, the index of its output, and the tensor.

The tensor is valid during the call alone.
"""

_REDUCED = {DType.FLOAT16.label: DType.FLOAT16, DType.BFLOAT16.label: DType.BFLOAT16}


class CompileRequest(Record, frozen=True, kw_only=True):
    """What is asked of a compilation: the arguments of `optimize`.

    Attributes:
        backends: Ids in order of preference, ``"AcmeNpu:1"`` for a device, ``"AcmeNpu?"`` if it may
            be absent, or backends themselves. None: those that the registry prefers.
        shapes: Sizes of symbolic dimensions, ``{"N": 4}``, or whole shapes by input,
            ``{"image": (4, 3, 224, 224)}``.
        values: Inputs that are known beforehand; they become constants.
        require: Backend by layer name, glob over names, or kind.
        forbid: The same, with one backend or several.
        fallback: False: every layer runs on the first backend, apart from required ones, and a
            backend that raises is an error.
        options: Options by backend id.
        reduce_float: ``"float16"`` or ``"bfloat16"``: convert the layers whose backend asks for it.
        integer_layers: Turn dequantize - compute - quantize into integer layers, whose results
            differ by at most 1 in the last place, where a backend takes them; False: execute
            literally. None: for backends that are faster so.
        debug: Called with (layer, index, array) for every tensor on its way; True logs a line for
            each.
        passes: False: only what is needed to run at all; each layer is a part of its own.
        tuned: Compute layers in the ways that `dovetail tune` found fastest on this machine, where
            it was run.
        oracle: Computes once, beforehand, the layers that depend on constants alone and that the
            core cannot evaluate. `Runtime.load` and `dovetail.optimize` put the installed backends
            that declare themselves oracles in the place of True; False leaves such layers to the
            runs.
        threads: CPU threads that the network will have, for these; None: all usable cores.
        policy: Which backend a layer gets of those that are willing.
        registry: Where ids are looked up, and where it is told whether devices could be opened.
        progress: Called with (backend id, fraction, what) while backends compile; what it raises
            ends the load.
        limits: How much it may take; the same when the result is asked to plan anew.
        isolate: Ids of backends that run in a process of their own; the others run in this one,
            with ``()`` all. None: those whose manifest asks for it.
        apart: Offer each layer to its backend as a part of its own. None: where `passes` is False.
        given_back: Parts that were claimed and could not be compiled; their layers go to other
            backends.
    """

    backends: Sequence[BackendLike] | BackendLike | None = None
    shapes: Shapes = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    require: Require | None = None
    forbid: Forbid | None = None
    fallback: bool = True
    options: Options | None = None
    reduce_float: str | DType | None = None
    integer_layers: bool | None = None
    debug: DebugCallback | bool | None = None
    passes: bool = True
    tuned: bool | Chooser = True
    oracle: bool | ConstantEvaluator = True
    threads: int | None = None
    policy: PlacementPolicy = field(default_factory=FirstWilling)
    registry: Registry = field(default_factory=default_registry)
    progress: Listener | None = None
    limits: Limits | None = None
    isolate: Sequence[str] | str | None = None
    apart: bool | None = None
    given_back: tuple[GivenBack, ...] = ()

    def __post_init__(self) -> None:
        label = self.reduce_float.label if isinstance(self.reduce_float, DType) else self.reduce_float
        if label is not None and label not in _REDUCED:
            raise OptionError(
                f"reduce_float is {label!r}",
                code=ErrorCode.OPTION_INVALID,
                hint=f"give {' or '.join(map(repr, _REDUCED))}, or leave it out",
            )
        if not isinstance(self.oracle, bool) and not callable(getattr(self.oracle, "evaluate", None)):
            raise OptionError(
                f"oracle is {shown_argument(self.oracle)}, which computes nothing",
                code=ErrorCode.OPTION_INVALID,
                hint="give False to have runs compute constants, or leave it out: backends declare themselves oracles",
                option="oracle",
            )

    @classmethod
    def of(
        cls, given: Mapping[str, Any] | CompileRequest | None, *, caller: str = "optimize", others: Sequence[str] = ()
    ) -> CompileRequest:
        """Make one of arguments by name; None stands for the default of any.

        Args:
            given: The arguments.
            caller: The function that they were given to, for errors.
            others: Further arguments by name that it has.

        Raises:
            OptionError: A name means nothing (`OPTION_UNKNOWN`), or a value does not fit.
        """
        if isinstance(given, CompileRequest):
            return given
        known = cls._fields
        for name in given or {}:
            if name not in known:
                from ..ground.names_elsewhere import OF_LOAD

                hint = OF_LOAD.get(str(name)) or suggestion(str(name), [*others, *known], limit=32)
                raise OptionError(f"{caller} has no argument {name!r}", hint=hint, option=str(name))
        return cls(**{name: value for name, value in (given or {}).items() if value is not None})

    def but(self, **changes: Any) -> CompileRequest:
        """Return a copy with these values replaced; None keeps the present value."""
        return self.replaced(**{name: value for name, value in changes.items() if value is not None})

    @property
    def reduced_dtype(self) -> DType | None:
        """The element type that layers are converted to."""
        wanted = self.reduce_float
        return wanted if isinstance(wanted, DType) or wanted is None else _REDUCED[wanted]
