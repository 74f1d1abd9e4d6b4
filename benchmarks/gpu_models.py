"""Measure GpuAcc on a GPU beside PyTorch on the same GPU: whole models with random weights.

    python3 dev.py bench gpu_models --model resnet50 --dtype float16 --batch 1,32

PyTorch with CUDA, torchvision, transformers and onnx must be there; they are no requirement of
dovetail, and this command installs none of them. PyTorch runs with TF32 off and with cuDNN looking
for its fastest kernels, eagerly and as a CUDA graph, on tensors that lie on the GPU; "with copies"
brings inputs in and outputs out, as each run of dovetail does. See README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dovetail

DTYPES = ("float32", "float16")
TOLERANCE = {"float32": 2e-4, "float16": 2e-2}
"""Of results, relative to the largest; twice the error of PyTorch where that is more."""
HEADER = "| model | batch | dtype | dovetail | torch, eager | with copies | CUDA graph | of eager | of copies | of graph |"
WORDS = 128
"""Of a sentence."""


def resnet50() -> tuple[Any, Callable[[int], tuple[Any, ...]]]:
    """Return ResNet-50 and what makes its inputs."""
    import torch
    import torchvision

    return torchvision.models.resnet50(), lambda batch: (torch.randn(batch, 3, 224, 224),)


def mobilenet_v2() -> tuple[Any, Callable[[int], tuple[Any, ...]]]:
    """Return MobileNetV2 and what makes its inputs."""
    import torch
    import torchvision

    return torchvision.models.mobilenet_v2(), lambda batch: (torch.randn(batch, 3, 224, 224),)


def minilm() -> tuple[Any, Callable[[int], tuple[Any, ...]]]:
    """Return the encoder of MiniLM-L6 and what makes its inputs."""
    import torch
    import transformers

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = transformers.BertConfig(
                hidden_size=384,
                num_hidden_layers=6,
                num_attention_heads=12,
                intermediate_size=1536,
                attn_implementation="eager",
            )
            self.bert = transformers.BertModel(sizes, add_pooling_layer=False)

        def forward(self, words: Any, mask: Any) -> Any:
            return self.bert(input_ids=words, attention_mask=mask).last_hidden_state

    def inputs(batch: int) -> tuple[Any, ...]:
        return torch.randint(0, 30000, (batch, WORDS)), torch.ones(batch, WORDS, dtype=torch.long)

    return Encoder(), inputs


MODELS = {"resnet50": resnet50, "mobilenet_v2": mobilenet_v2, "minilm": minilm}


def calibrate(model: Any, inputs: tuple[Any, ...]) -> None:
    """Give batch normalizations the statistics of random inputs: else float16 overflows."""
    import torch

    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        model.train()(*inputs)


def reference(model: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the results of a model for its weights and inputs as they are, computed in float64."""
    import torch

    wide = copy.deepcopy(model).double()
    with torch.no_grad():
        return wide(*(one.double() if one.is_floating_point() else one for one in inputs)).cpu().numpy()


def milliseconds(call: Callable[[], Any], rounds: int) -> float:
    """Return the median time of a call, after three that are not counted."""
    times = []
    for _ in range(rounds + 3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:]) * 1e3


def graphed(model: Any, inputs: tuple[Any, ...]) -> Callable[[], None] | None:
    """Return a replay of the model as a CUDA graph; None where it cannot be captured."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            model(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            model(*inputs)
    except RuntimeError:
        torch.cuda.synchronize()
        return None

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay


def measure(name: str, batch: int, dtype: str, device: str, rounds: int, folder: Path) -> str:
    """Return the row of a model."""
    import torch

    torch.manual_seed(0)
    model, make = MODELS[name]()
    calibrate(model, make(4))
    model = model.eval().cuda().to(getattr(torch, dtype))
    given = [one.to(getattr(torch, dtype)) if one.is_floating_point() else one for one in make(batch)]
    there = tuple(one.cuda() for one in given)
    exact = reference(model, there)
    path = folder / f"{name}_{batch}_{dtype}.onnx"
    names = [f"input{index}" for index in range(len(given))]
    torch.onnx.export(model, there, str(path), dynamo=False, opset_version=17, input_names=names, output_names=["y"])
    feeds = {key: one.numpy() for key, one in zip(names, given, strict=True)}
    with dovetail.load(path, [device, "CpuRef"]) as net, torch.no_grad():
        found = net.run(feeds)["y"].astype(np.float64)
        largest = abs(exact).max()
        error = float(abs(found - exact).max() / largest)
        peer = float(abs(model(*there).cpu().numpy().astype(np.float64) - exact).max() / largest)
        if not error <= max(TOLERANCE[dtype], 2 * peer):
            raise SystemExit(f"{name}: results differ by {error:.1e} of the largest, those of PyTorch by {peer:.1e}")
        others = sorted({step.kind for step in net.placement.layers if str(step.backend) != "GpuAcc"})
        if others:
            print(f"{name}: not on GpuAcc: {', '.join(others)}")

        def eager() -> None:
            model(*there)
            torch.cuda.synchronize()

        own = milliseconds(lambda: net.run(feeds), rounds)
        peers = [
            milliseconds(eager, rounds),
            milliseconds(lambda: model(*(one.cuda() for one in given)).cpu(), rounds),
        ]
        replay = graphed(model, there)
        peers.append(milliseconds(replay, rounds) if replay else float("nan"))
    cells = [name, str(batch), dtype, *(f"{ms:.2f} ms" for ms in (own, *peers)), *(f"{ms / own:.2f}" for ms in peers)]
    return f"| {' | '.join(cells)} |"


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a table, row by row."""
    yield HEADER
    yield "|---" * HEADER.count(" | ") + "|---|"
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model.split(","):
            for dtype in arguments.dtype.split(","):
                for batch in arguments.batch.split(","):
                    yield measure(name, int(batch), dtype, arguments.device, arguments.rounds, Path(folder))


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=",".join(MODELS), help="names, separated by commas (%(default)s)")
    parser.add_argument("--dtype", default=",".join(DTYPES), help="element types (%(default)s)")
    parser.add_argument("--batch", default="1,32", help="sizes of batches (%(default)s)")
    parser.add_argument("--device", default="GpuAcc", help="which device, such as GpuAcc:1 (%(default)s)")
    parser.add_argument("--rounds", type=int, default=30, help="runs of each (%(default)s)")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is not here: install it, with torchvision, transformers and onnx") from None
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU here, so there is nothing to compare with")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    warnings.filterwarnings("ignore")
    driver = torch.cuda.get_device_name()
    print(f"{driver}, torch {torch.__version__}, TF32 off, cuDNN {torch.backends.cudnn.version()}")
    with contextlib.suppress(KeyboardInterrupt):
        for row in rows(arguments):
            print(row, flush=True)


if __name__ == "__main__":
    main()
