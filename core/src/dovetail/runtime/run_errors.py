"""Errors of a run: what each says, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

from ..ground.errors import ErrorCode, InputError, OptionError, RunError, RunTimeoutError, shown_argument
from ..ground.host_exceptions import is_of_host

_Function = TypeVar("_Function", bound=Callable[..., Any])
_STUCK = "; the device did not release the run's memory, which is therefore never reused"


def _refused(name: str, what: str, code: ErrorCode, hint: str) -> RunError:
    return RunError(f"network {name!r} {what}", code=code, hint=hint)


def unloaded(name: str) -> RunError:
    """Return the error for a call of a network that was unloaded."""
    return _refused(name, "was unloaded", ErrorCode.NETWORK_UNLOADED, "load it again with dovetail.load")


def reentrant(name: str) -> RunError:
    """Return the error for a call from inside a run, which would wait for itself."""
    what = "was called from inside a run or from its own planning, which it would wait for"
    hint = "a backend must not run the network that it is part of; tell its vendor"
    return _refused(name, what, ErrorCode.BACKEND_CONTRACT, hint)


def forked(name: str) -> RunError:
    """Return the error for a device that was opened before fork()."""
    hint = "load it again in the child, or use multiprocessing's 'spawn' method"
    return _refused(name, "uses a device and was loaded before fork()", ErrorCode.FORKED, hint)


def unwatched(name: str) -> RunError:
    """Return the error for a deadline that no thread could be started for."""
    hint = "the process is at its limit of threads; run without a timeout, or raise the limit"
    return _refused(name, "cannot start a thread to watch the deadline", ErrorCode.OUT_OF_MEMORY, hint)


def held(name: str) -> RunTimeoutError:
    """Return the error for a deadline that passed before a run could begin."""
    return RunTimeoutError(f"network {name!r}: the deadline passed while other runs held the device")


def late(name: str, step: Any, stuck: bool) -> RunTimeoutError:
    """Return the error for a deadline that passed in a step."""
    return RunTimeoutError(
        f"network {name!r}: the deadline passed in layer {step.name!r} on {step.backend}{_STUCK * stuck}",
        hint="give it more time, or see net.profiling() for where the time goes",
        layer=step.name,
    )


def cancelled(name: str, step: Any, stuck: bool) -> RunError:
    """Return the error for a run that was cancelled in a step."""
    return RunError(f"network {name!r}: the run was cancelled in layer {step.name!r}{_STUCK * stuck}", code=ErrorCode.CANCELLED)


def failed(name: str, step: Any, status: int, text: str, stuck: bool, *, out_of_memory: bool) -> RunError:
    """Return the error for a step that failed."""
    maps = ", ".join(map(str, step.maps))
    where = f"{step.backend}, which maps memory of {maps}" if maps else step.backend
    return RunError(
        f"network {name!r}: layer {step.name!r} ({step.layer_kind}) failed on {where}: {text} (code {status}){_STUCK * stuck}",
        code=ErrorCode.OUT_OF_MEMORY if out_of_memory else ErrorCode.STEP_FAILED,
        hint="use a smaller batch, run fewer at once, or free memory" if out_of_memory else None,
        layer=step.name,
        sources=step.sources,
        backend=str(step.maps[0].owner if maps else step.backend),
        status=status,
    )


def process_died(name: str, step: Any, cause: RunError) -> RunError:
    """Return the error for a step whose backend's process died; `cause` says how."""
    return RunError(
        f"network {name!r}: layer {step.name!r} ({step.layer_kind}): {cause.message}",
        code=cause.code,
        hint=cause.hint,
        **{**cause.details, "layer": step.name, "sources": step.sources},
    )


def lack_of_memory(what: str, error: MemoryError) -> BaseException:
    """Return the error for memory that could not be had.

    Args:
        what: Who wanted it, such as "network 'digits'".
        error: What was raised; it is returned itself if it is the host's own.
    """
    if is_of_host(error):
        return error
    text = str(error)
    result = RunError(
        f"{what}: memory for a run could not be had" + (f": {text}" if text else ""),
        code=ErrorCode.OUT_OF_MEMORY,
        hint="use a smaller batch, run fewer at once, or free memory",
    )
    result.__cause__ = error
    return result


def typed_lack_of_memory(function: _Function) -> _Function:
    """Decorate a method of an object with a `name`: raise `MemoryError` as `RunError`.

    The code of that error is `OUT_OF_MEMORY`.
    """

    @wraps(function)
    def typed(self: Any, /, *arguments: Any, **options: Any) -> Any:
        try:
            return function(self, *arguments, **options)
        except MemoryError as error:
            raise lack_of_memory(f"network {self.name!r}", error)  # noqa: B904  # its cause is set

    return typed  # type: ignore[return-value]  # of the same signature


def no_time(timeout: Any) -> OptionError:
    """Return the error for a timeout that is no number of seconds."""
    return OptionError(
        f"timeout {shown_argument(timeout)} is not a time",
        code=ErrorCode.OPTION_INVALID,
        hint="give seconds, above 0, or None",
    )


def no_dictionary(given: Any, method: str, kind: str) -> InputError:
    """Return the error for arrays that are given otherwise than by name."""
    other = ", or call the network itself with a single array" if method == "run" else ""
    return InputError(
        f"{method}() got {type(given).__name__!r}",
        code=ErrorCode.INPUT_NAME if kind == "input" else ErrorCode.OUTPUT_NAME,
        hint=f"give a dictionary {{{kind} name: array}}{other}",
    )


def called_as_elsewhere(first: Any, more: tuple[Any, ...], method: str = "run") -> TypeError:
    """Return the error for a run that was given more than a dictionary of arrays by position."""
    hint = "({input name: array, ...}, outputs=[names to return])"
    if isinstance(more[0], Mapping):  # onnxruntime's order
        wanted = "" if first is None else f", outputs={shown_argument([first] if isinstance(first, str) else first)}"
        hint = f"({{{', '.join(f'{name!r}: ...' for name in list(more[0])[:8])}}}{wanted})"
    elif isinstance(first, str):
        hint = f"({{{first!r}: array}})"
    elif isinstance(first, Mapping) and isinstance(more[0], list | tuple):
        hint = f"(feeds, outputs={shown_argument(more[0])})"
    return TypeError(
        f"{method}() takes one argument by position, arrays by input name, but {1 + len(more)} were given; "
        f"write {'await ' if method == 'run_async' else ''}net.{method}{hint}"
    )


def no_argument(method: str, names: Iterable[str], inputs: Iterable[Any]) -> OptionError:
    """Return the error for arguments by name that a method of a network does not have.

    Args:
        method: Its name.
        names: The arguments.
        inputs: The inputs of the network, for which others take them.
    """
    from ..ground.close_names import suggestion
    from ..ground.names_elsewhere import OF_RUN

    unknown = list(names)
    call = {"__call__": "net", "run_async": "await net.run_async"}.get(method, f"net.{method}")
    fed = [spec.name for spec in inputs if spec.name in unknown]
    first, known = (fed or unknown)[0], _ARGUMENTS.get(method, ("feeds", "timeout", "outputs", "state"))
    if fed and method == "__call__":
        hint = (
            f"arrays by input name go to net.run({{{', '.join(f'{name!r}: array' for name in fed)}}}), one array to net(array)"
        )
    elif fed:
        hint = f"arrays go in as a dictionary: {call}({{{', '.join(f'{name!r}: array' for name in fed)}}})"
    else:
        hint = OF_RUN.get("inputs" if first == "feeds" else first) or suggestion(first, known)
        if method == "bind":  # whose outputs are arrays, too
            hint = hint.replace("outputs=[name]", "outputs={name: array}")
        if method != "__call__":
            hint = hint.replace("net.run(", f"{call}(")
    what = method if method != "__call__" else "a network"
    return OptionError(f"{what} has no argument {first!r}", code=ErrorCode.OPTION_UNKNOWN, hint=hint, option=first)


_ARGUMENTS = {"bind": ("inputs", "outputs"), "__call__": ("x", "timeout", "outputs")}
"""What methods have; `run` and its kin are not here."""


def called_with_several(name: str, inputs: Any, count: int) -> TypeError:
    """Return the error for a network that was called with several arrays."""
    feeds = ", ".join(f"{spec.name!r}: array" for spec in inputs[:8])
    return TypeError(f"network {name!r} was called with {count} arrays, which have no names; write net.run({{{feeds}}})")


def no_output_names(given: Any) -> InputError:
    """Return the error for `outputs` that are no names."""
    return InputError(
        f"outputs {shown_argument(given)} are no names",
        code=ErrorCode.OUTPUT_NAME,
        hint="give a list of names of outputs or layers, such as ['conv1']",
    )


def not_one_input(name: str, inputs: Any) -> InputError:
    """Return the error for a call with a single array where there are more inputs, or none."""
    return InputError(
        f"network {name!r} has {len(inputs)} inputs",
        code=ErrorCode.INPUT_NAME,
        hint=f"call run({{{', '.join(repr(spec.name) + ': ...' for spec in inputs)}}})",
    )


def changed_input(name: str, what: str, hint: str) -> InputError:
    """Return the error for an array that another thread gave another shape meanwhile."""
    return InputError(
        f"network {name!r}: {what} changed while it was being checked",
        code=ErrorCode.INPUT_SHAPE,
        hint=f"another thread writes to it: {hint}",
    )


def bound_output(specs: Any, bound: Any) -> InputError:
    """Return the error for bound outputs that do not fit the plan for the inputs' values."""
    for spec in specs:
        array = bound[spec.name]
        if array.shape != tuple(spec.shape) or array.dtype != spec.dtype.numpy:
            return InputError(
                f"with the values that the bound inputs have now output {spec.name!r} is {spec.dtype}{list(spec.shape)}, "
                f"bound is {array.dtype}{list(array.shape)}",
                code=ErrorCode.BINDING_INVALID,
                hint="bind again",
            )
    return InputError("a bound output is not writeable in place any more", code=ErrorCode.BINDING_INVALID, hint="bind again")
