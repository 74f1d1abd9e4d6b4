"""Find objects on a picture, and draw boxes around them.

Call it as `python detect.py MODEL.tflite PICTURE LABELS.txt FOUND.png`.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import dovetail

LEAST = 0.45  # of the score: what is less likely is not shown


def main(model: str, picture: str, labels: str, found: str) -> None:
    """Run the detector on one picture."""
    names = Path(labels).read_text("utf-8").splitlines()
    with Image.open(picture) as file:
        image = file.convert("RGB")
    with dovetail.load(model) as net:
        _, height, width, _ = net.inputs[0].sizes
        pixels = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        boxes, classes, scores, _ = net.run({net.inputs[0].name: pixels[np.newaxis]}).values()
    canvas, font = ImageDraw.Draw(image), ImageFont.load_default(max(12, image.height // 25))
    for box, number, score in zip(boxes[0], classes[0].astype(int), scores[0], strict=True):
        if score < LEAST:
            break  # the best come first
        top, left, bottom, right = (box * np.tile(image.size[::-1], 2)).round()
        print(f"{score:.2f}  {names[number]:10}  from ({left:.0f}, {top:.0f}) to ({right:.0f}, {bottom:.0f})")
        canvas.rectangle((left, top, right, bottom), outline="red", width=3)
        text, at = f"{names[number]} {score:.0%}", (left + 6, top + 4)
        canvas.rectangle(canvas.textbbox(at, text, font=font), fill="red")
        canvas.text(at, text, fill="white", font=font)
    image.save(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
