"""Check the arrays that callers hand in: by name, type, shape and layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.descriptor import Array
from ..graph.element_types import DType
from ..ground.errors import DovetailError, ErrorCode, InputError

if TYPE_CHECKING:
    from ..optimizer.optimized import TensorSpec


def check_names(network: str, specs: Sequence[TensorSpec], feeds: Mapping[str, Any]) -> None:
    """Refuse arrays by other names than those of the inputs.

    Raises:
        InputError: A name is missing, or there is no such input (`INPUT_NAME`).
    """
    expected = {spec.name: None for spec in specs}  # in their order
    missing = [name for name in expected if name not in feeds]
    unknown = [str(name) for name in feeds if name not in expected]
    if missing or unknown:
        parts = [f"input {', '.join(map(repr, missing))} is missing"] if missing else []
        parts += [f"there is no input {', '.join(map(repr, unknown))}"] if unknown else []
        raise InputError(
            f"network {network!r}: {'; '.join(parts)}",
            code=ErrorCode.INPUT_NAME,
            hint=f"its inputs are {', '.join(map(repr, expected)) or 'none'}",
            missing=missing,
            unknown=unknown,
        )


def host_array(name: str, value: Any) -> Array:
    """Return a NumPy view of an array of any library, without copying."""
    if isinstance(value, np.ndarray):
        return value
    if not hasattr(value, "__dlpack__"):
        raise InputError(
            f"{name!r} is {type(value).__name__!r}, not an array",
            code=ErrorCode.INPUT_DTYPE,
            hint="give a NumPy array, such as np.asarray(values, np.float32), or anything with __dlpack__ in host memory",
        )
    if _is_of_torch(value) and value.is_neg():  # PyTorch exports the memory, and leaves out that all signs are others
        raise _unreadable(name, "its signs are not those of its memory", f"give {_identifier(name)}.resolve_neg()")
    try:
        return np.from_dlpack(value)
    except DovetailError:  # it called this library
        raise
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        hint = "make it a NumPy array in host memory first: np.asarray(array), or what its library has for that"
        if _is_of_torch(value):
            hint = _torch_hint(_identifier(name), value) or hint
        raise _unreadable(name, f"its memory cannot be read from here: {error}", hint) from error


def _unreadable(name: str, what: str, hint: str) -> InputError:
    return InputError(f"{name!r}: {what}", code=ErrorCode.INPUT_DTYPE, hint=hint)


def _is_of_torch(value: Any) -> bool:
    """Tell whether a value is a tensor of PyTorch, which is not imported for that."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def _torch_hint(identifier: str, value: Any) -> str:
    """Return what makes a tensor of PyTorch one that NumPy can read; empty if that is not known."""
    device = str(value.device)
    if device == "meta":
        return "it has no values: it is on the device 'meta'"
    steps = [".detach()"] if value.requires_grad else []
    steps += [] if device == "cpu" else [".cpu()"]
    steps += [] if str(value.layout) == "torch.strided" else [".to_dense()"]
    steps += [".resolve_conj()"] if value.is_conj() else []
    if value.is_quantized:
        steps.append(".dequantize()")
    elif str(value.dtype) == "torch.bfloat16":
        bits = f"{identifier}{''.join(steps)}.view(torch.uint16) for one of bfloat16"
        return f"give {identifier}{''.join(steps)}.float() to an input of float32, or {bits}"
    elif str(value.dtype).startswith("torch.float8"):
        steps.append(".float()")
    return f"give {identifier}{''.join(steps)}" if steps else ""


def _stored(spec: TensorSpec, array: Array) -> Array:
    """Return a view of NumPy's own dtypes: bfloat16 of another package is stored as uint16."""
    return array.view(np.uint16) if spec.dtype is DType.BFLOAT16 and array.dtype.name == "bfloat16" else array


def checked_array(spec: TensorSpec, value: Any, symbols: dict[str, int]) -> Array:
    """Check one input; bind its symbolic sizes; copy it only if its layout requires that."""
    array = _stored(spec, host_array(spec.name, value))
    wanted = spec.dtype.numpy
    if array.dtype.newbyteorder("=") != wanted:
        raise InputError(
            f"input {spec.name!r} is {array.dtype}, expected {spec.dtype}",
            code=ErrorCode.INPUT_DTYPE,
            hint=f"convert it: {_paste(spec, value)}",
            name=spec.name,
        )
    fits = len(array.shape) == len(spec.shape)
    for size, expected in zip(array.shape, spec.shape, strict=False):
        fits = fits and (size == expected if isinstance(expected, int) else symbols.setdefault(expected, size) == size)
    if not fits:
        bound = {d: symbols[d] for d in spec.shape if isinstance(d, str) and d in symbols}
        raise InputError(
            f"input {spec.name!r} has shape {list(array.shape)}, expected [{', '.join(map(str, spec.shape))}]"
            + (f" with {', '.join(f'{k} = {v}' for k, v in bound.items())}" if bound else ""),
            code=ErrorCode.INPUT_SHAPE,
            hint=f"a shape is never guessed: {_reshaping(spec, array)}",
            name=spec.name,
        )
    return np.require(array.astype(wanted, copy=False), requirements=["C", "A"])


def _reshaping(spec: TensorSpec, array: Array) -> str:
    """Say what makes an array fit, if it lacks a batch, or has its channels elsewhere."""
    name, rank = _identifier(spec.name), array.ndim

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) == len(spec.shape) and all(
            isinstance(expected, str) or size == expected for size, expected in zip(shape, spec.shape, strict=True)
        )

    if fits((1, *array.shape)):
        return f"add the axis of the batch: {name}[np.newaxis]"
    if rank > 2:
        outer = tuple(range(rank - len(spec.shape) + 1))  # the batch, if there is one
        inner = tuple(range(len(outer), rank))
        for order in ((*outer, inner[-1], *inner[:-1]), (*outer, *inner[1:], inner[0])):
            shape = tuple(array.shape[axis] for axis in order)
            if fits(shape) or fits((1, *shape)):
                batch = "" if fits(shape) else "[np.newaxis]"
                return f"transpose it, if its channels are elsewhere: {name}.transpose{order}{batch}"
    return "reshape or transpose it yourself"


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "array"


def _paste(spec: TensorSpec, value: Any) -> str:
    identifier = _identifier(spec.name)
    if _is_of_torch(value):
        bits = ".view(torch.uint16)" if spec.dtype is DType.BFLOAT16 else ""  # as which NumPy can read it
        return f"{identifier}.to(torch.{spec.dtype.label}){bits}"
    if spec.dtype is DType.BFLOAT16:
        return f"{identifier}.astype(ml_dtypes.bfloat16)"
    return f"{identifier}.astype(np.{wanted if (wanted := spec.dtype.label) != 'bool' else 'bool_'})"


def same_memory(a: Array, b: Array) -> bool:
    """Tell whether two arrays are the same bytes."""
    return a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes


def binding_error(name: str, what: str) -> InputError:
    """Return the error for an array that cannot be bound."""
    return InputError(
        f"{name!r} cannot be bound: {what}",
        code=ErrorCode.BINDING_INVALID,
        hint="bind np.ascontiguousarray(...) of the exact dtype",
    )


def bound_outputs(
    network: str, specs: Sequence[Any], given: Mapping[str, Any], inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return the array of each output of a binding: what is given, checked, else a new one.

    Args:
        network: Its name.
        specs: The outputs of the plan, all sizes known.
        given: Arrays by output name.
        inputs: The bound inputs, which no output may overlap.

    Raises:
        InputError: A name or an array does not fit, or arrays overlap.
    """
    unknown = sorted(map(str, set(given) - {spec.name for spec in specs}))
    if unknown:
        raise InputError(
            f"network {network!r} has no output {unknown[0]!r}",
            code=ErrorCode.OUTPUT_NAME,
            hint=f"its outputs are {', '.join(spec.name for spec in specs)}",
        )
    results: dict[str, Array] = {}
    for spec in specs:
        if spec.name not in given:
            results[spec.name] = np.empty(spec.shape, spec.dtype.numpy)
            continue
        array = _stored(spec, host_array(spec.name, given[spec.name]))
        if array.dtype != spec.dtype.numpy or array.shape != spec.shape:
            raise binding_error(spec.name, f"it is {array.dtype}{list(array.shape)}, expected {spec.dtype}{list(spec.shape)}")
        if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
            raise binding_error(spec.name, "it is not C-contiguous, aligned and writeable")
        others = [*inputs.items(), *results.items()]
        clash = next((name for name, other in others if np.may_share_memory(array, other)), None)
        if clash is not None:
            raise binding_error(spec.name, f"it overlaps with {clash!r}")
        results[spec.name] = array
    return results
