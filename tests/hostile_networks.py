"""Build one-layer networks with disproportionate attributes; test_hostile_networks.py runs them.

    python hostile_networks.py BACKEND

loads each with the backend alone and runs it with a deadline of 0.2 s; it prints one line of JSON
for each: the name, the seconds that loading and running took, how it ended, and the result where it
is small.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from dovetail import DovetailError, Network, Runtime

HUGE = 1 << 30


def image(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32) % 7 + 1).reshape(shape)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


NETWORKS: dict[str, tuple[Any, np.ndarray]] = {
    # Windows of which nearly all lies outside the image.
    "max": (lambda n, x: n.pooling2d(x, "max", 4001, padding=2000), image(1, 1, 1000, 1000)),
    "average": (lambda n, x: n.pooling2d(x, "average", 4001, padding=2000), image(1, 1, 1000, 1000)),
    "average of a row": (
        lambda n, x: n.pooling2d(x, "average", (1, 1 << 22), padding=(0, 1 << 21), count_padding=True, ceil_mode=True),
        image(1, 1, 1, 1 << 18),
    ),
    "max, few results": (
        lambda n, x: n.pooling2d(x, "max", (1, HUGE), padding=(0, HUGE - 1), stride=(1, HUGE // 4)),
        image(1, 1, 4, 4),
    ),
    "average, few results": (
        lambda n, x: n.pooling2d(x, "average", (1, HUGE), padding=(0, HUGE - 1), stride=(1, HUGE // 4)),
        image(1, 1, 4, 4),
    ),
    "average with padding": (
        lambda n, x: n.pooling2d(x, "average", (HUGE, 1), padding=(HUGE // 2, 0), stride=(HUGE // 4, 1), count_padding=True),
        image(1, 1, 4, 4),
    ),
    "dilated": (
        lambda n, x: n.pooling2d(x, "max", (3, 1), padding=(HUGE, 0), dilation=(HUGE, 1), stride=(HUGE // 2, 1)),
        image(1, 1, 4, 4),
    ),
    "convolution": (lambda n, x: n.convolution2d(x, ones(1, 1, 1001, 1001), padding=5000), image(1, 1, 10, 10)),
    "convolution far outside": (
        lambda n, x: n.convolution2d(x, ones(1, 1, 1, 2), padding=(100_000, 100_000), stride=(199_999, 1)),
        image(1, 1, 4, 4),
    ),
    "convolution, few results": (
        lambda n, x: n.convolution2d(x, ones(2, 1, 3, 3), padding=(0, HUGE), dilation=(1, HUGE), stride=(1, HUGE)),
        image(1, 1, 4, 4),
    ),
    "depthwise": (lambda n, x: n.depthwise_convolution2d(x, ones(2, 1, 501, 501), padding=3000), image(1, 2, 20, 20)),
    "depthwise, few results": (
        lambda n, x: n.depthwise_convolution2d(x, ones(2, 1, 3, 3), padding=(0, HUGE), dilation=(1, HUGE), stride=(1, HUGE)),
        image(1, 2, 4, 4),
    ),
    # Steps with many phases.
    "transposed, long steps": (
        lambda n, x: n.transpose_convolution2d(x, ones(1, 1, 1, 1), stride=(1 << 24, 1)),
        image(1, 1, 2, 1),
    ),
    "transposed, many phases": (lambda n, x: n.transpose_convolution2d(x, ones(1, 1, 1, 1), stride=1024), image(1, 1, 3, 3)),
    "transposed, dilated": (lambda n, x: n.transpose_convolution2d(x, ones(1, 1, 2, 2), dilation=1 << 11), image(1, 1, 3, 3)),
    "transposed, cut off": (
        lambda n, x: n.transpose_convolution2d(x, ones(1, 1, 64, 64), stride=64, padding=64 * 200),
        image(1, 1, 401, 401),
    ),
    # Tables of positions.
    "resize a row": (lambda n, x: n.resize(x, (1, 1, 1, 1 << 20), method="cubic"), image(1, 1, 1, 7)),
    "reflect": (lambda n, x: n.pad(x, (0, (1 << 20) - 1), (0, 7), mode="reflect"), image(1, 1 << 20)),
}


def measure(runtime: Runtime, name: str, backend: str) -> dict[str, Any]:
    build, x = NETWORKS[name]
    found: dict[str, Any] = {"name": name}
    begin = time.perf_counter()
    try:
        net = Network()
        net.output(build(net, net.input("x", x.shape)), "y")
        loaded = runtime.load(net, optimize={"backends": [backend]})
        found["load"] = time.perf_counter() - begin
        begin = time.perf_counter()
        y = loaded.run({"x": x}, timeout=0.2)["y"]
        found |= {"end": "done", "result": y.ravel().tolist() if y.size <= 64 else None}
    except DovetailError as error:
        found["end"] = str(error.code)
    return found | {"last": time.perf_counter() - begin}


if __name__ == "__main__":
    with Runtime(threads=2) as runtime:
        NETWORKS["first"] = (lambda n, x: n.relu(x), ones(1))
        measure(runtime, "first", sys.argv[1])  # what the first load of a process costs is not what is measured
        del NETWORKS["first"]
        for name in NETWORKS:
            print(json.dumps(measure(runtime, name, sys.argv[1])), flush=True)
