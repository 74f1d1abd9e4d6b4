"""Train the demo's network on scikit-learn's digits; write digits.onnx and held_out/.

A step for developers: the demo itself needs neither PyTorch nor scikit-learn. Install the
dependency group `train` into an environment of your own, then `python examples/digits/train.py`. On
one machine and one set of versions it writes the same bytes every time.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from sklearn.datasets import load_digits
from torch import nn

HERE = Path(__file__).resolve().parent
SEED = 20
EPOCHS = 60
ROWS, COLUMNS = 4, 9  # tiles on the contact sheet of one class: 36 held-out pictures each


class Block(nn.Module):
    """Convolve, normalize, add the input where asked for, rectify."""

    def __init__(self, inputs: int, outputs: int, *, residual: bool = False):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply the block to [N, C, H, W]."""
        y = self.norm(self.conv(x))
        return torch.relu(y + x if self.residual else y)


class Digits(nn.Module):
    """Tell ten digits apart in pictures of 8 by 8 pixels: 24,698 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Block(1, 16)
        self.widen = Block(16, 32)
        self.refine = Block(32, 32)
        self.mix = Block(32, 32, residual=True)
        self.dropout = nn.Dropout(0.3)
        self.classify = nn.Linear(32 * 2 * 2, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Answer with the logits [N, 10] of pictures [N, 1, 8, 8] in 0 .. 1."""
        x = torch.max_pool2d(self.widen(self.stem(x)), 2)
        x = torch.max_pool2d(self.mix(self.refine(x)), 2)
        return self.classify(self.dropout(x.flatten(1)))


def split() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Set 36 pictures of each class aside.

    Returns training pictures, their labels, and held out [10, 36, 8, 8].
    """
    digits = load_digits()
    pixels = np.round(digits.images * (255 / 16)).astype(np.uint8)  # 0 .. 16 becomes what a PNG holds
    order = np.random.default_rng(SEED).permutation(len(pixels))
    held_out = np.stack([order[digits.target[order] == label][: ROWS * COLUMNS] for label in range(10)])
    training = np.setdiff1d(order, held_out)
    return pixels[training], digits.target[training], pixels[held_out]


def train(pixels: np.ndarray, labels: np.ndarray) -> Digits:
    """Fit the network with pictures shifted by up to one pixel.

    The held-out ones play no part, not even to stop.
    """
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    images = torch.from_numpy(pixels.astype(np.float32) / 255)[:, None]
    targets = torch.from_numpy(labels)
    network = Digits()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(images)).split(64):
            padded = nn.functional.pad(images[batch], (1, 1, 1, 1))
            top, left = torch.randint(3, (2,)).tolist()
            loss = nn.functional.cross_entropy(
                network(padded[:, :, top : top + 8, left : left + 8]), targets[batch], label_smoothing=0.05
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return network.eval()


def export(network: Digits) -> onnx.ModelProto:
    """Write the network as ONNX by hand.

    Every layer keeps its name, and batch norm is left for the runtime to fold.
    """
    nodes: list[onnx.NodeProto] = []
    weights: list[TensorProto] = []

    def constant(name: str, value: torch.Tensor) -> str:
        weights.append(numpy_helper.from_array(value.detach().numpy(), name))
        return name

    def node(kind: str, name: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [output or name], name=name, **attributes))
        return output or name

    def block(name: str, x: str) -> str:
        part = getattr(network, name)
        kernel = constant(f"{name}.weight", part.conv.weight)
        y = node("Conv", f"{name}.conv", x, kernel, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        moments = ("weight", "bias", "running_mean", "running_var")
        statistics = [constant(f"{name}.norm.{moment}", getattr(part.norm, moment)) for moment in moments]
        y = node("BatchNormalization", f"{name}.norm", y, *statistics, epsilon=part.norm.eps)
        return node("Relu", f"{name}.relu", node("Add", f"{name}.add", y, x) if part.residual else y)

    def pool(name: str, x: str) -> str:
        return node("MaxPool", name, x, kernel_shape=[2, 2], strides=[2, 2])

    x = pool("pool1", block("widen", block("stem", "image")))
    x = pool("pool2", block("mix", block("refine", x)))
    x = node("Flatten", "flatten", x, axis=1)
    parameters = (constant("classify.weight", network.classify.weight), constant("classify.bias", network.classify.bias))
    x = node("Gemm", "classify", x, *parameters, transB=1)
    node("Softmax", "softmax", x, axis=1, output="probabilities")

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])
    image.doc_string = "Grey pictures: 0 is paper, 1 is ink."
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["N", 10])
    graph = helper.make_graph(nodes, "digits", [image], [probabilities], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="dovetail-digits")
    onnx.checker.check_model(model, full_check=True)
    return model


def write_sheets(held_out: np.ndarray) -> None:
    """Write one contact sheet per class: 4 rows of 9 pictures, pixel by pixel."""
    (HERE / "held_out").mkdir(exist_ok=True)
    for label, pictures in enumerate(held_out):
        sheet = pictures.reshape(ROWS, COLUMNS, 8, 8).swapaxes(1, 2).reshape(ROWS * 8, COLUMNS * 8)
        Image.fromarray(sheet).save(HERE / "held_out" / f"{label}.png", optimize=True)


def main() -> None:
    """Train, tell the held-out accuracy, write the files."""
    pixels, labels, held_out = split()
    network = train(pixels, labels)
    with torch.inference_mode():
        images = torch.from_numpy(held_out.reshape(-1, 1, 8, 8).astype(np.float32) / 255)
        right = network(images).argmax(1).numpy() == np.repeat(np.arange(10), ROWS * COLUMNS)
    count = sum(parameter.numel() for parameter in network.parameters())
    print(f"{count} parameters, {len(pixels)} training pictures, {right.size} held out, accuracy {right.mean():.1%}")
    onnx.save(export(network), HERE / "digits.onnx")
    write_sheets(held_out)


if __name__ == "__main__":
    main()
