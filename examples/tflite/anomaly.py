"""Tell a machine that sounds wrong from one that sounds right.

Call it as `python anomaly.py MODEL.tflite DATA.npz`.

The network was taught to reproduce the spectra of a machine that runs well. What it reproduces
badly is unlike these: the mean squared error is the score of an anomaly.
"""

import sys

import numpy as np

import dovetail

FRAMES, BANDS = 5, 128
LOUDER = 9.0  # decibels


def with_a_whistle(windows: np.ndarray) -> np.ndarray:
    """Make up a broken machine, each window with a tone of its own: four bands are louder."""
    low = np.random.default_rng(0).integers(0, BANDS - 4, len(windows))
    bands = np.arange(BANDS)
    whistle = (bands >= low[:, np.newaxis]) & (bands < low[:, np.newaxis] + 4)
    louder = windows.reshape(-1, FRAMES, BANDS) + LOUDER * whistle[:, np.newaxis]
    return np.asarray(louder.reshape(windows.shape), np.float32)


def scores(net: dovetail.LoadedNetwork, windows: np.ndarray) -> np.ndarray:
    """Return how badly each window [n, 640] is reproduced."""
    fed, given = windows, net.inputs[0]
    if given.quantization is not None:
        steps = np.rint(windows / given.quantization.scale[0]) + given.quantization.zero_point[0]
        fed = np.clip(steps, *given.dtype.limits).astype(given.dtype.numpy)
    result = net.run({given.name: fed})[net.outputs[0].name]
    stated = net.outputs[0].quantization
    if stated is not None:
        result = (result.astype(np.float32) - stated.zero_point[0]) * stated.scale[0]
    return np.asarray(((result - windows) ** 2).mean(axis=1))


def area(well: np.ndarray, broken: np.ndarray) -> float:
    """Return the area below the ROC curve: how often the broken one of two has the larger score."""
    larger, same = broken[:, np.newaxis] > well, broken[:, np.newaxis] == well
    return float((larger + same / 2).mean())


def main(model: str, data: str) -> None:
    """Score a recording as it is, and with whistles in it."""
    with np.load(data) as held:
        windows = held["x_float"]
    with dovetail.load(model) as net:
        well, broken = scores(net, windows), scores(net, with_a_whistle(windows))
    print(f"{len(windows)} windows; mean error as recorded {well.mean():.3f}, with a whistle {broken.mean():.3f}")
    print(f"area below the ROC curve {area(well, broken):.4f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
