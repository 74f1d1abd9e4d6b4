"""Measure networks whose inputs have another size in every call, beside onnxruntime.

See README.md for how to read it.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import dovetail

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
BATCHES, LENGTHS = range(1, 33), range(5, 128)
WIDTH, HEADS, VOCABULARY, POSITIONS = 384, 12, 30522, 512
HIDDEN, LAYERS = 1328, 4  # of the network whose memory is measured: 27 MiB of weights
Feed = dict[str, np.ndarray]
Run = Callable[[Feed], np.ndarray]


class Builder:
    """Nodes and weights of an ONNX graph."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.luck = np.random.default_rng(0)

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add an initializer; answers with its name."""
        name = f"weights{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        """Add random weights."""
        return self.constant(self.luck.standard_normal(shape, np.float32) * 0.02)

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: object) -> str:
        """Add a node of one output; answers with its name."""
        name = output or f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"node{len(self.nodes)}", **attributes))
        return name

    def product(self, x: str, inward: int, outward: int) -> str:
        """Multiply by random weights and add a random bias."""
        return self.node("Add", self.node("MatMul", x, self.random(inward, outward)), self.random(outward))

    def normalization(self, x: str) -> str:
        """Normalize each row."""
        return self.node("LayerNormalization", x, self.constant(np.ones(WIDTH)), self.constant(np.zeros(WIDTH)), axis=-1)

    def save(self, path: Path, inputs: list[onnx.ValueInfoProto], output: str, shape: list[object]) -> Path:
        """Write the model."""
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, path.stem, inputs, outputs, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path


def write_transformer(path: Path, layers: int = 6) -> Path:
    """Write MiniLM-L6's encoder as exporters spell it out, with random weights.

    Batch and length are symbolic.
    """
    b = Builder()
    length = b.node("Unsqueeze", b.node("Gather", b.node("Shape", "ids"), b.constant(1, np.int64)), b.constant([0], np.int64))
    zero = b.constant([0], np.int64)
    position = b.node("Slice", b.random(POSITIONS, WIDTH), zero, length, zero)
    x = b.normalization(b.node("Add", b.node("Gather", b.random(VOCABULARY, WIDTH), "ids"), position))
    mask = b.node("Unsqueeze", b.node("Cast", "mask", to=TensorProto.FLOAT), b.constant([1, 2], np.int64))
    mask = b.node("Mul", b.node("Sub", b.constant(1.0), mask), b.constant(-10000.0))
    split = b.constant([0, 0, HEADS, WIDTH // HEADS], np.int64)
    for layer in range(layers):
        q, k, v = (
            b.node("Transpose", b.node("Reshape", b.product(x, WIDTH, WIDTH), split), perm=order)
            for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = b.node("Div", b.node("MatMul", q, k), b.constant((WIDTH / HEADS) ** 0.5))
        mixed = b.node("MatMul", b.node("Softmax", b.node("Add", scores, mask), axis=-1), v)
        mixed = b.node("Reshape", b.node("Transpose", mixed, perm=[0, 2, 1, 3]), b.constant([0, 0, WIDTH], np.int64))
        x = b.normalization(b.node("Add", x, b.product(mixed, WIDTH, WIDTH)))
        y = b.product(x, WIDTH, 4 * WIDTH)
        gate = b.node("Add", b.node("Erf", b.node("Div", y, b.constant(2**0.5))), b.constant(1.0))
        y = b.node("Mul", b.node("Mul", y, gate), b.constant(0.5))
        y = b.node("Add", x, b.product(y, 4 * WIDTH, WIDTH))
        output = "states" if layer == layers - 1 else ""
        x = b.node("LayerNormalization", y, b.constant(np.ones(WIDTH)), b.constant(np.zeros(WIDTH)), axis=-1, output=output)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", "L"]) for name in ("ids", "mask")]
    return b.save(path, inputs, "states", ["N", "L", WIDTH])


def write_products(path: Path) -> Path:
    """Write a perceptron with 27 MiB of weights and a symbolic batch."""
    b, x = Builder(), "x"
    for layer in range(LAYERS):
        x = b.node("Relu", b.product(x, HIDDEN, HIDDEN), output="y" if layer == LAYERS - 1 else "")
    return b.save(path, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", HIDDEN])], "y", ["N", HIDDEN])


def picture(batch: int) -> Feed:
    """Return pictures of digits."""
    return {"image": np.random.default_rng(batch).random((batch, 1, 8, 8), np.float32)}


def sentence(length: int) -> Feed:
    """Return one sentence."""
    ids = np.random.default_rng(length).integers(0, VOCABULARY, (1, length))
    return {"ids": ids, "mask": np.ones((1, length), np.int64)}


def open_both(path: Path, threads: int) -> dict[str, Run]:
    """Open a model in both runtimes, with their default options otherwise."""
    net = dovetail.load(path, threads=threads)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return {
        "dovetail": lambda feed: next(iter(net.run(feed).values())),
        "onnxruntime": lambda feed: session.run(None, feed)[0],
    }


def measure(
    runs: dict[str, Run], make: Callable[[int], Feed], sizes: range, calls: int, block: int
) -> list[dict[str, list[float]]]:
    """Time single calls of random sizes.

    Blocks of one runtime alternate with blocks of the same sizes of the other.

    Returns:
        Seconds by runtime: of sizes that it had not met before, and of those that it had.
    """
    luck, feeds = random.Random(0), {size: make(size) for size in sizes}
    times: list[dict[str, list[float]]] = [{name: [] for name in runs} for _ in range(2)]
    met: set[int] = set()
    for _ in range(calls // block):
        drawn = [luck.choice(sizes) for _ in range(block)]
        for name, run in runs.items():
            seen = set(met)
            for size in drawn:
                begin = time.perf_counter()
                run(feeds[size])
                times[size in seen][name].append(time.perf_counter() - begin)
                seen.add(size)
        met.update(drawn)
    return times


def compare(runs: dict[str, Run], make: Callable[[int], Feed], sizes: range) -> None:
    """Compare the answers: a wrong one is not worth timing."""
    for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1]):
        ours, theirs = (run(make(size)) for run in runs.values())
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5 * max(1.0, float(np.abs(theirs).max())))


def report(title: str, path: Path, make: Callable[[int], Feed], sizes: range, calls: int, threads: int) -> None:
    """Measure one model and print."""
    compare(open_both(path, threads), make, sizes)
    fresh, met = measure(open_both(path, threads), make, sizes, calls, 50)
    both = {name: [*fresh[name], *met[name]] for name in met}
    print(f"\n{title}: {len(both['dovetail'])} calls, {threads} threads, medians")
    for what, times in (("all calls", both), ("sizes met before", met), ("new sizes", fresh)):
        ours, theirs = (statistics.median(times[name]) * 1e6 for name in ("dovetail", "onnxruntime"))
        total = sum(times["dovetail"]) / sum(times["onnxruntime"])
        print(
            f"  {what:17} dovetail {ours:9.1f} µs   onnxruntime {theirs:9.1f} µs   ratio {ours / theirs:.2f}   "
            f"of the sums {total:.2f}"
        )


def report_met(threads: int) -> None:
    """Compare a size met before, alternating with another, with a network of this size alone."""
    fixed, free = dovetail.load(DIGITS, threads=threads, shapes={"N": 7}), dovetail.load(DIGITS, threads=threads)
    one, other = picture(7), picture(5)
    small = dovetail.load(DIGITS, threads=threads, shapes={"N": 5})
    calls = (
        ("fixed", lambda: (fixed.run(one), small.run(other))),
        ("alternating", lambda: (free.run(one), free.run(other))),
    )
    times: dict[str, list[float]] = {name: [] for name, _ in calls}
    for _ in range(60):
        for name, call in calls:
            begin = time.perf_counter()
            for _ in range(200):
                call()
            times[name].append((time.perf_counter() - begin) / 400)
    ratio = statistics.median(b / a for a, b in zip(times["fixed"], times["alternating"], strict=True))
    mine, theirs = (statistics.median(values) * 1e6 for values in times.values())
    print(
        f"\nTwo sizes of digits alternating, {threads} threads: {theirs:.2f} µs a call, "
        f"two networks of a fixed size {mine:.2f} µs: {ratio:.2f}"
    )


def report_new(title: str, path: Path, make: Callable[[int], Feed], sizes: range, threads: int) -> None:
    """Print the processor time that planning a size takes.

    Other programs do not lengthen it as they do the elapsed time.
    """
    net, times = dovetail.load(path, threads=threads), []
    for size in sizes:
        feed, took = make(size), []
        for _ in range(2):  # the second is the run without the planning
            begin = time.thread_time()
            net.run(feed)
            took.append((time.thread_time() - begin) * 1e3)
        times.append(took[0] - took[1])
    times = sorted(times[1:])  # the first imports what it needs
    spread = f"{times[0]:.1f} .. {times[-1]:.1f}"
    print(f"\nPlanning a new size, {title}: {statistics.median(times):.1f} ms of the processor ({spread})")


def resident() -> int:
    """Return the bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


def print_memory(path: str, sizes: int) -> None:
    """Print what loading a network and running it with so many batch sizes, 1 to 64, takes."""
    np.zeros(1) @ np.zeros(1)
    before = resident()
    net = dovetail.load(path, threads=2)
    drawn = [*range(1, 65)]
    random.Random(0).shuffle(drawn)
    drawn.remove(64)
    for batch in [64, *drawn][:sizes]:
        net.run({"x": np.ones((batch, HIDDEN), np.float32)})
    print(resident() - before)


def report_memory(path: Path) -> None:
    """Measure memory in processes of their own."""
    found = []
    for sizes in (1, 64):
        command = [sys.executable, __file__, "--memory-of", str(path), str(sizes)]
        found.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    one, many = (nbytes / 2**20 for nbytes in found)
    print(
        f"\nMemory of a network with 27 MiB of weights: {one:.0f} MiB with one size, {many:.0f} MiB with 64: {many / one:.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, help="calls for each model and runtime (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print_memory(arguments.memory_of[0], int(arguments.memory_of[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        threads = arguments.threads
        report("digits, batch 1 to 32 at random", DIGITS, picture, BATCHES, arguments.calls, threads)
        transformer = write_transformer(folder / "transformer.onnx")
        report("6-layer transformer, length 5 to 127 at random", transformer, sentence, LENGTHS, arguments.calls, threads)
        report_new("digits", DIGITS, picture, BATCHES, threads)
        report_new("6-layer transformer", transformer, sentence, range(5, 128, 4), threads)
        report_met(threads)
        report_memory(write_products(folder / "products.onnx"))


if __name__ == "__main__":
    main()
