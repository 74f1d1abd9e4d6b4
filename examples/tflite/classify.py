"""Say what is on a picture: the five most likely classes.

Call it as `python classify.py MODEL.tflite PICTURE LABELS.txt`.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import dovetail


def main(model: str, picture: str, labels: str) -> None:
    """Run the network on one picture."""
    names = Path(labels).read_text("utf-8").splitlines()
    with dovetail.load(model) as net:
        image, scores = net.inputs[0], net.outputs[0]
        _, height, width, _ = image.sizes
        with Image.open(picture) as file:
            pixels = np.asarray(file.convert("RGB").resize((width, height), Image.Resampling.BILINEAR))
        if image.dtype.is_float:  # a quantized network takes the bytes as they are
            pixels = (pixels.astype(np.float32) - 127.5) / 127.5
        row = net.run({image.name: pixels[np.newaxis]})[scores.name][0]
        if scores.quantization is not None:
            row = (row.astype(np.float32) - scores.quantization.zero_point[0]) * scores.quantization.scale[0]
    if row.min() < 0 or row.sum() > 1.1:  # a network that leaves it to us to make shares of its scores
        row = np.exp(row - row.max())
        row /= row.sum()
    for index in np.argsort(-row, kind="stable")[:5]:
        print(f"{row[index]:6.1%}  {names[index]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
