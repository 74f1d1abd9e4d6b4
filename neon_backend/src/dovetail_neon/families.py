"""The families of kernels, each a folder that holds all that its kernels need.

A folder `<family>/` holds, as far as the family has them:

* `__init__.py`: the tables of the family, each from a kind to "module.function" of this folder:
  `WORKLOADS` creates the workload of a kind; `RULES` says what a layer of a kind becomes,
  `BYTE_RULES` what one of quantized bytes becomes, `SHORT_RULES` what one of quantized int16
  becomes, `PRODUCTS` what a product and all that follows it becomes; `FINER` says which of the
  layers that the manifest claims are refused all the same
* `support.py`: functions of `FINER`
* `kinds.py`: the private kinds that layers are rewritten to
* `lowering.py`: functions of `RULES`, `BYTE_RULES`, `SHORT_RULES` and `PRODUCTS`
* `parameters.h`, `parameters.pxd`: what its kernels are told, in C and for Cython
* for each kernel `<kernel>.pyx`, which works the parameters out when a network is loaded, and
  `<kernel>.h`, which computes

The tables name modules by their text, so that a load imports those alone that its layers need. A
kernel of a family is added in its folder. A new family is added to `FAMILIES` too, and its kernels
to the table of an instruction set (`instruction_sets/table.h`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from dovetail import DType, Layer

FAMILIES = (
    *("attention", "convolution", "elementwise", "matrices", "movement", "quantized", "recurrent", "resizing", "rows"),
    *("strips", "windows"),
)
TABLES = ("WORKLOADS", "RULES", "BYTE_RULES", "SHORT_RULES", "PRODUCTS", "FINER")
_BYTES = (DType.INT8, DType.UINT8)


@cache
def found(table: str, kind: str) -> Callable[..., Any] | None:
    """Return the function that a family's table names for a kind; None if none does.

    Its module is imported now.
    """
    for family in FAMILIES:
        entry = getattr(import_module(f".{family}", __package__), table, {}).get(kind)
        if entry is not None:
            module, _, name = entry.partition(".")
            function: Callable[..., Any] = getattr(import_module(f".{family}.{module}", __package__), name)
            return function
    return None


def rules_for(layer: Layer) -> str:
    """Name the table that says what a layer becomes, by the elements that it computes on."""
    info = layer.input_infos[0] if layer.inputs else None
    if info is not None and info.dtype is DType.INT16 and info.quantization is not None:
        return "SHORT_RULES"
    return "BYTE_RULES" if is_quantized(layer) else "RULES"


def is_quantized(layer: Layer) -> bool:
    """Tell whether a layer computes on quantized bytes, by kernels of their own."""
    info = layer.input_infos[0] if layer.inputs else None
    return info is not None and info.dtype in _BYTES and found("BYTE_RULES", layer.kind) is not None
