"""Hostile values: sizes, attributes, names, and arrays to feed."""

import random

import numpy as np

SMALL = (0, 1, 2, 3, 4, 5, 7, 8, -1, -2, -3)
LARGE = (15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 1 << 20, 1 << 24)
EXTREME = (
    *(1 << 30, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, 1 << 53, 1 << 61, 1 << 62, (1 << 63) - 1),
    *(-128, -(1 << 20), -(1 << 31), -(1 << 32), -(1 << 62), -(1 << 63)),
)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-8,
    -1e-8,
    1e-45,
    1e-38,
    3.4e38,
    -3.4e38,
    1e30,
    float("inf"),
    float("-inf"),
    float("nan"),
)
TEXTS = (
    "",
    "x",
    "x" * 300,
    "é",
    "\u202e",
    "a/b",
    "../x",
    "\n",
    "NOTSET",
    "SAME_UPPER",
    "VALID",
    "linear",
    "ai.onnx",
    "com.microsoft",
)


def integer(luck: random.Random) -> int:
    """Draw an integer: mostly a small one, so that mutants also run."""
    return luck.choice(luck.choices((SMALL, LARGE, EXTREME), (6, 2, 2))[0])


def number(luck: random.Random) -> float:
    """Draw a float."""
    return luck.choice(FLOATS) if luck.random() < 0.4 else luck.uniform(-4, 4)


def array(luck: random.Random, shape: tuple[int, ...], dtype: np.dtype, hostile: bool) -> np.ndarray:
    """Draw an array; a hostile one has values that no kernel likes, among others."""
    generator = np.random.default_rng(luck.getrandbits(64))
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if np.issubdtype(dtype, np.integer):
        drawn = generator.integers(0, luck.choice((2, 4, 10, 100)), shape).astype(dtype)
    elif np.issubdtype(dtype, np.floating):
        drawn = (generator.standard_normal(shape) * luck.choice((0.1, 1, 1, 1, 10))).astype(dtype)
    else:
        return generator.integers(0, 2, shape).astype(dtype)
    return poisoned(luck, drawn) if hostile else drawn


def poisoned(luck: random.Random, values: np.ndarray) -> np.ndarray:
    """Replace some entries by hostile ones of the type."""
    result = np.array(values)
    flat = result.reshape(-1)
    for _ in range(luck.randint(1, 3) if flat.size else 0):
        flat[luck.randrange(flat.size)] = fitting(luck, flat.dtype)
    return result


def fitting(luck: random.Random, dtype: np.dtype) -> np.generic:
    """Draw a hostile value that the type can hold."""
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        value = luck.choice((int(limits.min), int(limits.max), integer(luck), integer(luck)))
        return dtype.type(min(max(value, int(limits.min)), int(limits.max)))
    with np.errstate(all="ignore"):
        if np.issubdtype(dtype, np.floating):
            return dtype.type(luck.choice((*FLOATS, float(np.finfo(dtype).max), float(np.finfo(dtype).tiny))))
        return np.asarray(luck.randrange(2)).astype(dtype)[()]


def size(luck: random.Random) -> int:
    """Draw what a symbolic dimension is at run time."""
    return luck.choice((0, 1, 1, 2, 2, 3, 4, 5, 7, 16))
