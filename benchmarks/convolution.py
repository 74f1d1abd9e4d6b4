"""Measure CpuRef's convolution beside Arm NN's CpuRef and ONNX Runtime.

See README.md for how to read it.

Arm NN's Python package belongs to the interpreter of the system that it comes with: name that one
with --armnn-python, and a process of it takes part, block by block, over a pipe.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

import dovetail

SHAPES = {  # name: (channels, height and width, filters, kernel, stride)
    "3x3 64->64 56x56": (64, 56, 64, 3, 1),
    "1x1 256->64 56x56": (256, 56, 64, 1, 1),
    "3x3/2 128->128 28x28": (128, 28, 128, 3, 2),
    "7x7/2 3->64 224x224": (3, 224, 64, 7, 2),
}
Run = Callable[[], np.ndarray]

ARMNN = """
import sys, time, contextlib, io
import numpy as np
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    import pyarmnn as ann
channels, size, filters, kernel, stride = map(int, sys.argv[1:6])
x, w = np.load(sys.argv[6]), np.load(sys.argv[7])
pad = kernel // 2
out = (size + 2 * pad - kernel) // stride + 1
net = ann.INetwork()
d = ann.Convolution2dDescriptor()
d.m_DataLayout = ann.DataLayout_NCHW
d.m_StrideX = d.m_StrideY = stride
d.m_PadLeft = d.m_PadRight = d.m_PadTop = d.m_PadBottom = pad
d.m_BiasEnabled = True
float32 = ann.DataType_Float32
info = ann.TensorInfo(ann.TensorShape((1, channels, size, size)), float32)
result = ann.TensorInfo(ann.TensorShape((1, filters, out, out)), float32)
weights = ann.ConstTensor(ann.TensorInfo(ann.TensorShape(w.shape), float32), w)
bias = ann.ConstTensor(ann.TensorInfo(ann.TensorShape((filters,)), float32), np.zeros(filters, np.float32))
layers = net.AddInputLayer(0), net.AddConvolution2dLayer(d, weights, bias), net.AddOutputLayer(0)
layers[0].GetOutputSlot(0).Connect(layers[1].GetInputSlot(0))
layers[1].GetOutputSlot(0).Connect(layers[2].GetInputSlot(0))
layers[0].GetOutputSlot(0).SetTensorInfo(info)
layers[1].GetOutputSlot(0).SetTensorInfo(result)
runtime = ann.IRuntime(ann.CreationOptions())
optimized, _ = ann.Optimize(net, [ann.BackendId("CpuRef")], runtime.GetDeviceSpec(), ann.OptimizerOptions())
identifier, _ = runtime.LoadNetwork(optimized)
inputs = [(0, ann.ConstTensor(info, x))]
held = ann.Tensor(result)
outputs = [(0, held)]
for line in sys.stdin:
    start = time.perf_counter()
    runtime.EnqueueWorkload(identifier, inputs, outputs)
    seconds = time.perf_counter() - start
    np.save(sys.argv[8], held.get_memory_area().reshape(1, filters, out, out))
    print(seconds, flush=True)
"""


def problem(shape: tuple[int, int, int, int, int]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return image, weights, and multiply-accumulates in thousands of millions."""
    channels, size, filters, kernel, stride = shape
    rng = np.random.default_rng(0)
    image = rng.standard_normal((1, channels, size, size), np.float32)
    weights = rng.standard_normal((filters, channels, kernel, kernel), np.float32)
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1
    return image, weights, filters * out * out * channels * kernel * kernel / 1e9


def open_dovetail(shape: tuple[int, int, int, int, int], image: np.ndarray, weights: np.ndarray) -> Run:
    """Load one convolution on CpuRef."""
    net = dovetail.Network("convolution")
    x = net.input("x", image.shape)
    net.output(net.convolution2d(x, weights, stride=shape[4], padding=shape[3] // 2), "y")
    loaded = dovetail.load(net, backends=["CpuRef"])
    return lambda: loaded.run({"x": image})["y"]


def open_onnxruntime(shape: tuple[int, int, int, int, int], image: np.ndarray, weights: np.ndarray) -> Run:
    """Load the same with one thread: what a backend made for speed does."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    pad = shape[3] // 2
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[shape[4]] * 2, pads=[pad] * 4)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * 4) for name in "xy"]
    graph = helper.make_graph([node], "convolution", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": image})[0]


class ArmNN:
    """Arm NN's CpuRef in a process of the interpreter that has it."""

    def __init__(self, python: str, folder: str, shape: tuple[int, ...], image: np.ndarray, weights: np.ndarray) -> None:
        paths = [f"{folder}/{name}.npy" for name in ("image", "weights", "result")]
        np.save(paths[0], image)
        np.save(paths[1], weights)
        self.result = paths[2]
        command = [python, "-c", ARMNN, *map(str, shape), *paths]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def seconds(self) -> float:
        """Run once."""
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def timed(run: Run) -> float:
    """Run once; answer with the seconds it took."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(name: str, rounds: int, armnn_python: str | None, folder: str) -> dict[str, float]:
    """Compare the answers, then return 10^9 multiply-accumulates per second, by runtime."""
    shape = SHAPES[name]
    image, weights, work = problem(shape)
    ours, peer = open_dovetail(shape, image, weights), open_onnxruntime(shape, image, weights)
    expected = ours()
    tolerance = {"rtol": 1e-3, "atol": 1e-2}
    np.testing.assert_allclose(peer(), expected, **tolerance)
    takers = {"dovetail CpuRef": lambda: timed(ours), "onnxruntime": lambda: timed(peer)}
    armnn = ArmNN(armnn_python, folder, shape, image, weights) if armnn_python else None
    if armnn:
        armnn.seconds()
        np.testing.assert_allclose(np.load(armnn.result), expected, **tolerance)
        takers["Arm NN CpuRef"] = armnn.seconds
    times: dict[str, list[float]] = {taker: [] for taker in takers}
    for _ in range(rounds):
        for taker, take in takers.items():
            times[taker].append(take())
    if armnn:
        armnn.close()
    return {taker: work / statistics.median(found) for taker, found in times.items()}


def main() -> None:
    """Print a row per shape."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--armnn-python", help="interpreter that has pyarmnn")
    arguments = parser.parse_args()
    print("float32, one thread, GMAC/s; × is CpuRef's rate over Arm NN's", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for name in SHAPES:
            rates = measure(name, arguments.rounds, arguments.armnn_python, folder)
            row = "  ".join(f"{taker} {rate:6.2f}" for taker, rate in rates.items())
            ratio = f"  × {rates['dovetail CpuRef'] / rates['Arm NN CpuRef']:.0f}" if "Arm NN CpuRef" in rates else ""
            print(f"{name:<22} {row}{ratio}")


if __name__ == "__main__":
    main()
