"""Show what an object detector found: as a table, and drawn on the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy.typing as npt

if TYPE_CHECKING:
    from dovetail import Network

_COLORS = ("#e6194b", "#3cb44b", "#4363d8", "#f58231", "#911eb4", "#008080", "#9a6324", "#800000")
"""Of boxes, by class; white text can be read on each."""


@dataclass(frozen=True, slots=True)
class Detector:
    """Names of the outputs that a detector ends with.

    Attributes:
        boxes: [batch, places, 4] as top, left, bottom, right, parts of the picture's sides.
        classes: [batch, places].
        scores: [batch, places].
        count: [batch].
        num_classes: How many classes there are, without a background.
    """

    boxes: str
    classes: str
    scores: str
    count: str
    num_classes: int

    @property
    def outputs(self) -> tuple[str, ...]:
        """All of these."""
        return self.boxes, self.classes, self.scores, self.count


@dataclass(frozen=True, slots=True)
class Detection:
    """One object.

    Attributes:
        number: Its class.
        label: The class's name, or its number.
        score: How sure the network is.
        box: Left, top, right, bottom, parts of the picture's sides; may reach beyond it.
    """

    number: int
    label: str
    score: float
    box: tuple[float, float, float, float]

    def pixels(self, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Return the box in pixels of a picture of a size (width, height), within it."""
        sides = [size[place % 2] for place in range(4)]
        left, top, right, bottom = (min(max(round(part * side), 0), side) for part, side in zip(self.box, sides, strict=True))
        return left, top, right, bottom

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"class": self.number, "label": self.label, "score": self.score, "box": list(self.box)}


def find_detector(network: Network) -> Detector | None:
    """Return the detector whose results are outputs of a network; None without, or with several."""
    from dovetail.layers import DetectionPostProcess

    found: dict[Any, dict[int, str]] = {}
    for output in network.outputs:
        source = output.inputs[0].source
        if source is not None and isinstance(source.layer.descriptor, DetectionPostProcess):
            found.setdefault(source.layer, {}).setdefault(source.index, output.name)
    whole = [(layer, names) for layer, names in found.items() if len(names) == 4]
    if len(whole) != 1:
        return None
    layer, names = whole[0]
    return Detector(names[0], names[1], names[2], names[3], layer.descriptor.num_classes)


def detections(
    detector: Detector, results: Mapping[str, npt.NDArray[Any]], labels: Sequence[str] = (), least: float = 0.0
) -> list[Detection]:
    """List what was found in the first picture, in the order of the network: the best first.

    Args:
        detector: Its outputs.
        results: All outputs.
        labels: Names of the classes; one more than there are classes has the background first.
        least: Lowest score.
    """
    import numpy as np

    named = labels[1:] if len(labels) == detector.num_classes + 1 else labels
    boxes, classes, scores = (results[name][0] for name in (detector.boxes, detector.classes, detector.scores))
    found = []
    count = float(results[detector.count][0])
    for place in range(min(int(count), len(scores)) if np.isfinite(count) else 0):
        score = float(scores[place])
        if score >= least and np.isfinite([*boxes[place], classes[place]]).all():
            number = int(classes[place])
            top, left, bottom, right = boxes[place].tolist()
            label = named[number] if 0 <= number < len(named) else f"class {number}"
            found.append(Detection(number, label, score, (left, top, right, bottom)))
    return found


def detections_table(found: Sequence[Detection], size: tuple[int, int] | None) -> Any:
    """Build the table of detections.

    Args:
        found: The detections.
        size: Width and height of the picture, in whose pixels boxes are told; None: in parts of it.
    """
    from .rendering import table

    rows = []
    for one in found:
        box = one.pixels(size) if size is not None else one.box
        rows.append((f"{one.score:.3f}", one.label, *(f"{part}" if size is not None else f"{part:.3f}" for part in box)))
    unit = " px" if size is not None else ""
    sides = tuple(f"{side}{unit}" for side in ("left", "top", "right", "bottom"))
    return table(("score", "label", *sides), rows, right=("score", *sides), texts=("label",))


def picture_size(path: Path) -> tuple[int, int]:
    """Return width and height of a picture as it is looked at."""
    from PIL import Image, ImageOps

    with Image.open(path) as file:
        return ImageOps.exif_transpose(file).size


def draw(picture: Path, found: Sequence[Detection], output: Path) -> None:
    """Draw boxes with labels on a picture and write it as PNG.

    Raises:
        click.UsageError: It cannot be written.
    """
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    from .pictures import of_bytes

    with Image.open(picture) as file:
        ImageOps.exif_transpose(file, in_place=True)
        image = of_bytes(file, picture).convert("RGB")
    canvas = ImageDraw.Draw(image)
    width = max(2, min(image.size) // 200)
    font = ImageFont.load_default(max(12, min(image.size) // 28))
    for one in reversed(found):  # so that the best lies above the others
        color = _COLORS[one.number % len(_COLORS)]
        left, top, right, bottom = one.pixels(image.size)
        canvas.rectangle((left, top, max(left, right - 1), max(top, bottom - 1)), outline=color, width=width)
        text = f"{one.label} {one.score:.2f}"
        _, _, wide, high = canvas.textbbox((0, 0), text, font=font)
        at = (min(left, max(0, image.width - int(wide) - 2 * width)), max(0, top - int(high) - 2 * width))
        canvas.rectangle((*at, at[0] + wide + 2 * width, at[1] + high + 2 * width), fill=color)
        canvas.text((at[0] + width, at[1] + width), text, fill="white", font=font)
    try:
        image.save(output, "PNG")
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror or error}") from None
