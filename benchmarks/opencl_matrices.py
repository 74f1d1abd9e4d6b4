"""Measure GpuAcc's products of matrices beside CpuAcc's: networks of one layer, alternating.

    python3 dev.py bench opencl_matrices --clblast

It is a comparison where the OpenCL device is the same CPU, such as PoCL's. With `--clblast` CLBlast
multiplies two matrices too, as it comes, on the first OpenCL device; they lie there already. See
README.md for how to read it.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable

import numpy as np

import dovetail
from dovetail import DType, Network

BACKENDS = ("GpuAcc", "CpuAcc")
ALL_DEVICES, COPIED = 0xFFFFFFFF, 1 << 5  # CL_DEVICE_TYPE_ALL; CL_MEM_COPY_HOST_PTR, readable and writable
ROW_MAJOR, AS_IT_IS, TRANSPOSED = 101, 111, 112  # of CLBlast
BLOCK = 0.02  # seconds of one turn, about
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]] = {  # layer, sizes of both sides
    "768^3, weights": ("weights", (768, 768), (768, 768)),
    "1536^3, weights": ("weights", (1536, 1536), (1536, 1536)),
    "768^3, both computed": ("product", (768, 768), (768, 768)),
    "768^3, transposed": ("transposed", (768, 768), (768, 768)),
    "bert_mini: query, key, value": ("connected", (128, 256), (256, 256)),
    "bert_mini: up": ("connected", (128, 256), (1024, 256)),
    "bert_mini: down": ("connected", (128, 1024), (256, 1024)),
    "bert_mini: scores": ("transposed", (4, 128, 64), (4, 128, 64)),
    "bert_mini: weighed values": ("product", (4, 128, 128), (4, 128, 64)),
    "one row, 4096 x 4096 weights": ("connected", (1, 4096), (4096, 4096)),
    "four rows, 4096 x 4096 weights": ("connected", (4, 4096), (4096, 4096)),
}
Run = Callable[[], np.ndarray]


def drawn(sizes: tuple[int, ...]) -> np.ndarray:
    """Return random values, the same for each backend."""
    return np.random.default_rng(sizes).standard_normal(sizes).astype(np.float32)


def opened(backend: str, layer: str, left: tuple[int, ...], right: tuple[int, ...]) -> Run:
    """Return a call of a network of one layer."""
    network = Network("product")
    feeds = {"a": drawn(left)}
    a = network.input("a", left, DType.FLOAT32)
    if layer in ("weights", "connected"):
        b = network.constant(drawn(right))
    else:
        feeds["b"] = drawn(right)
        b = network.input("b", right, DType.FLOAT32)
    if layer == "connected":
        y = network.fully_connected(a, b, network.constant(drawn(right[:1])))
    else:
        y = network.matmul(a, b, transpose_b=layer == "transposed")
    network.output(y, name="y")
    net = dovetail.load(network, [backend])
    return lambda: net.run(feeds)["y"]


class Clblast:
    """CLBlast on the first OpenCL device."""

    def __init__(self) -> None:
        self.cl, self.blas = ctypes.CDLL("libOpenCL.so.1"), ctypes.CDLL("libclblast.so.1")
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer"):
            getattr(self.cl, name).restype = ctypes.c_void_p
        platform, device = ctypes.c_void_p(), ctypes.c_void_p()
        succeeded(self.cl.clGetPlatformIDs(1, ctypes.byref(platform), None))
        succeeded(self.cl.clGetDeviceIDs(platform, ctypes.c_uint64(ALL_DEVICES), 1, ctypes.byref(device), None))
        self.context = ctypes.c_void_p(self.cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
        self.queue = ctypes.c_void_p(self.cl.clCreateCommandQueue(self.context, device, ctypes.c_uint64(0), None))

    def buffer(self, values: np.ndarray) -> ctypes.c_void_p:
        """Return a copy on the device."""
        size, data = ctypes.c_size_t(values.nbytes), values.ctypes.data_as(ctypes.c_void_p)
        return ctypes.c_void_p(self.cl.clCreateBuffer(self.context, ctypes.c_uint64(COPIED), size, data, None))

    def product(self, a: np.ndarray, b: np.ndarray, *, is_transposed: bool) -> Run:
        """Return a call of a product; it returns what a first one made."""
        (rows, depth), columns = a.shape, b.shape[0 if is_transposed else 1]
        result = np.zeros((rows, columns), np.float32)
        left, right, made = (self.buffer(one) for one in (a, b, result))
        sizes = [ctypes.c_size_t(size) for size in (rows, columns, depth)]
        zero, one = ctypes.c_size_t(0), ctypes.c_float(1)

        def run() -> np.ndarray:
            code = self.blas.CLBlastSgemm(
                ROW_MAJOR,
                AS_IT_IS,
                TRANSPOSED if is_transposed else AS_IT_IS,
                *sizes,
                one,
                *(left, zero, ctypes.c_size_t(depth)),
                *(right, zero, ctypes.c_size_t(b.shape[1])),
                ctypes.c_float(0),
                *(made, zero, ctypes.c_size_t(columns)),
                ctypes.byref(self.queue),
                None,
            )
            succeeded(code or self.cl.clFinish(self.queue))
            return result

        run()
        data = result.ctypes.data_as(ctypes.c_void_p)
        size = ctypes.c_size_t(result.nbytes)
        succeeded(self.cl.clEnqueueReadBuffer(self.queue, made, 1, zero, size, data, 0, None, None))
        return run


def succeeded(code: int) -> None:
    """Raise an error for the code of one."""
    if code:
        raise RuntimeError(f"OpenCL or CLBlast answered {code}")


def timed(run: Run, calls: int) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def measure(
    layer: str, left: tuple[int, ...], right: tuple[int, ...], rounds: int, clblast: Clblast | None
) -> dict[str, list[float]]:
    """Return the seconds of a call on each backend, and on CLBlast, round by round."""
    runs = {backend: opened(backend, layer, left, right) for backend in BACKENDS}
    if clblast is not None and len(left) == len(right) == 2 and layer != "connected":
        runs["CLBlast"] = clblast.product(drawn(left), drawn(right), is_transposed=layer == "transposed")
    first, *others = (run() for run in runs.values())
    for other in others:
        np.testing.assert_allclose(first, other, atol=1e-4 * float(abs(other).max()))
    calls = {backend: max(1, round(BLOCK / timed(run, 2))) for backend, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for backend, run in runs.items():
            times[backend].append(timed(run, calls[backend]))
    return times


def main() -> None:
    """Print a line for each product."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each backend")
    parser.add_argument("case", nargs="*", help="names, or parts of them; none: all")
    parser.add_argument("--clblast", action="store_true", help="beside CLBlast, too")
    given = parser.parse_args()
    clblast = Clblast() if given.clblast else None
    print(f"{'':32}{'GpuAcc':>12}{'GFLOP/s':>10}   others, and how often as long they take")
    for name, (layer, left, right) in CASES.items():
        if given.case and not any(part in name for part in given.case):
            continue
        times = measure(layer, left, right, given.rounds, clblast)
        columns = right[-1] if layer in ("weights", "product") else right[-2]
        ours = times.pop("GpuAcc")
        speed = 2e-9 * np.prod(left) * columns / statistics.median(ours)
        shown = "".join(
            f"   {name} {statistics.median(each) * 1e6:.0f} us"
            f" {statistics.median(theirs / mine for mine, theirs in zip(ours, each, strict=True)):.2f}"
            for name, each in times.items()
        )
        print(f"{name:32}{statistics.median(ours) * 1e6:>9.0f} us{speed:>10.0f}{shown}", flush=True)


if __name__ == "__main__":
    main()
