"""The families of kernels, each a folder that holds all that its kernels need.

A folder `<family>/` holds, as far as the family has them:

* `__init__.py`: `WORKLOADS`, which function creates the workload of a kind: "module.function" of
  this folder
* `support.py`: `FINER`, which of the layers that the manifest claims are refused all the same
* `kinds.py`: the private kinds that layers are rewritten to
* `lowering.py`: `RULES`, what a layer becomes
* `parameters.h`, `parameters.pxd`: what its kernels are told, in C and for Cython
* for each kernel `<kernel>.pyx`, which works the parameters out when a network is loaded, and
  `<kernel>.h`, which computes

A kernel of a family is added in its folder. A new family is added to `FAMILIES` too, and its
kernels to the table of an instruction set (`instruction_sets/table.h`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

FAMILIES = (
    *("attention", "convolution", "elementwise", "matrices", "movement", "quantized", "resizing", "rows", "strips", "windows"),
)


@cache
def creator(kind: str) -> Callable[..., Any] | None:
    """Return the function that creates the workloads of a kind; None if there is none.

    The kind's module is imported now.
    """
    for family in FAMILIES:
        entry = import_module(f".{family}", __package__).WORKLOADS.get(kind)
        if entry is not None:
            module, _, function = entry.partition(".")
            create: Callable[..., Any] = getattr(import_module(f".{family}.{module}", __package__), function)
            return create
    return None
