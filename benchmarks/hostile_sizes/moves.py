"""Hostile sizes: padding, permutations, joining and broadcasting."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .case import enter, filled, flat


def enter_cases() -> None:
    """Enter them into the table."""
    for mode in ("constant", "edge", "reflect", "symmetric", "wrap"):
        enter(f"pad {mode} long axis", flat(None), lambda net, x, n, m=mode: net.pad(x, (3,), (4,), mode=m))
        enter(
            f"pad {mode} long padding",
            lambda n: {"x": ((2, n // 8), "float32")},
            lambda net, x, n, m=mode: net.pad(x, (0, n // 8 - 1), (0, n // 8 - 1), mode=m),
        )
        enter(
            f"pad {mode} image",
            flat(1, 1, None, None),
            lambda net, x, n, m=mode: net.pad(x, (0, 0, 1, 1), (0, 0, 1, 1), mode=m),
        )
        enter(f"pad {mode} rows", flat(None, 2), lambda net, x, n, m=mode: net.pad(x, (0, 1), (0, 1), mode=m))
    enter("pad far", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.pad(x, (n // 2,), (n // 2,)))
    enter(
        "pad one wrapped", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.pad(x, (n // 2,), (n // 2,), mode="wrap")
    )
    enter("pad int8", flat(None, dtype="int8"), lambda net, x, n: net.pad(x, (3,), (4,)))
    enter("permute", flat(None, None), lambda net, x, n: net.permute(x, (1, 0)))
    enter(
        "permute many axes",
        lambda n: {"x": ((2,) * int(math.log2(n)), "float32")},
        lambda net, x, n: net.permute(x, tuple(reversed(range(int(math.log2(n)))))),
    )
    enter("permute thin", flat(None, 2), lambda net, x, n: net.permute(x, (1, 0)))
    enter("permute wide", flat(2, None), lambda net, x, n: net.permute(x, (1, 0)))
    enter("permute int8", flat(None, None, dtype="int8"), lambda net, x, n: net.permute(x, (1, 0)))
    enter("reshape", flat(None), lambda net, x, n: net.reshape(x, (-1, 1)))
    enter(
        "concat", lambda n: {"x": ((n // 2,), "float32"), "z": ((n // 2,), "float32")}, lambda net, x, z, n: net.concat([x, z])
    )
    enter(
        "concat inner",
        lambda n: {"x": ((n // 2, 1), "float32"), "z": ((n // 2, 1), "float32")},
        lambda net, x, z, n: net.concat([x, z], axis=1),
    )
    enter(
        "concat int8", lambda n: {"x": ((n // 2,), "int8"), "z": ((n // 2,), "int8")}, lambda net, x, z, n: net.concat([x, z])
    )
    enter(
        "stack",
        lambda n: {"x": ((n // 2,), "float32"), "z": ((n // 2,), "float32")},
        lambda net, x, z, n: net.stack([x, z], axis=1),
    )
    enter("split inner", flat(None, 2), lambda net, x, n: net.split(x, 2, axis=1)[0])
    enter("broadcast", lambda n: {"x": ((1, 1), "float32")}, lambda net, x, n: net.broadcast_to(x, (n // 1000, 1000)))
    enter("broadcast long", lambda n: {"x": ((1,), "float32")}, lambda net, x, n: net.broadcast_to(x, (n,)))
    enter("tile", lambda n: {"x": ((4,), "float32")}, lambda net, x, n: net.tile(x, (n // 4,)))
    enter("tile rows", lambda n: {"x": ((n // 100,), "float32")}, lambda net, x, n: net.tile(x, (100,)))
    for layout in ("NCHW", "NHWC"):
        shape = (1, 4, None, None) if layout == "NCHW" else (1, None, None, 4)

        def even(n: int, shape: tuple[int | None, ...] = shape) -> Mapping[str, Any]:
            return {"x": (tuple(size if size < 8 else size & ~3 for size in filled(shape, n)), "float32")}

        enter(f"space to depth {layout}", even, lambda net, x, n, o=layout: net.space_to_depth(x, 2, layout=o))
        enter(f"depth to space {layout}", even, lambda net, x, n, o=layout: net.depth_to_space(x, 2, layout=o))
