"""Recognise the held-out handwritten digits with dovetail; show backend and time of each layer."""

import time
from pathlib import Path

import numpy as np
from PIL import Image

import dovetail

HERE = Path(__file__).resolve().parent
TILE = 8  # pixels, both ways
SHADES = " .:-=+*#%@"


def held_out() -> tuple[np.ndarray, np.ndarray]:
    """Cut the contact sheets into pictures [360, 1, 8, 8] and labels [360].

    The pictures are in 0 (paper) .. 1 (ink).
    """
    pictures, labels = [], []
    for path in sorted((HERE / "held_out").glob("*.png")):
        with Image.open(path) as sheet:
            pixels = np.asarray(sheet, np.float32) / 255
        rows, columns = (size // TILE for size in pixels.shape)
        pictures.append(pixels.reshape(rows, TILE, columns, TILE).swapaxes(1, 2).reshape(-1, 1, TILE, TILE))
        labels += [int(path.stem)] * (rows * columns)
    return np.concatenate(pictures), np.array(labels)


def drawing(picture: np.ndarray) -> list[str]:
    """Draw a picture as lines of text, two characters to a pixel."""
    return ["".join(SHADES[round(float(ink) * (len(SHADES) - 1))] * 2 for ink in row) for row in picture[0]]


def side_by_side(pictures: np.ndarray, captions: list[str]) -> str:
    """Draw pictures beside each other, each above its caption."""
    columns = [[*drawing(picture), caption.ljust(2 * TILE)] for picture, caption in zip(pictures, captions, strict=True)]
    return "\n".join("   ".join(line).rstrip() for line in zip(*columns, strict=True))


def seconds_a_picture(net: dovetail.LoadedNetwork, images: np.ndarray) -> float:
    """Measure a run of one picture: the mean over all, of the best of three rounds."""
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        for picture in images:
            net.run({"image": picture[None]})
        rounds.append(time.perf_counter() - start)
    return min(rounds) / len(images)


def main() -> None:
    """Run the demo."""
    print("Backends found:")
    for backend in dovetail.backends():
        print(f"  {backend.id} ({backend.source}): {backend.reason or backend.description}")

    images, labels = held_out()
    with dovetail.load(HERE / "digits.onnx", threads=2) as net:  # on the fastest backends that are installed
        print("\nModel digits.onnx")
        for role, infos in (("input", net.inputs), ("output", net.outputs)):
            for info in infos:
                print(f"  {role:6} {info.name} {info.dtype.label} {list(info.shape)}")

        probabilities = net.run({"image": images})["probabilities"]
        answers = probabilities.argmax(axis=1)
        right = answers == labels
        print(f"\n{len(labels)} pictures that took no part in training: {right.sum()} right, accuracy {right.mean():.1%}\n")

        shown = [*np.flatnonzero(right)[[5, 130, 250]], *np.flatnonzero(~right)[:1]]
        verdicts = [f"{answers[i]} ({probabilities[i].max():.0%})" + ("" if right[i] else f", is {labels[i]}") for i in shown]
        print(side_by_side(images[shown], verdicts))

        print("\nWhich backend runs what, and why:")
        print(net.placement.explain())

        print("\nTime of each layer, one picture:")
        with net.profiling() as profile:
            for picture in images:
                net.run({"image": picture[None]})
        print(profile.table())
        fast = seconds_a_picture(net, images)
    with dovetail.load(HERE / "digits.onnx", backends=["CpuRef"], threads=2) as oracle:
        same = (oracle.run({"image": images})["probabilities"].argmax(axis=1) == answers).sum()
        slow = seconds_a_picture(oracle, images)
    print(f"\nOne picture takes {fast * 1e6:.1f} µs; CpuRef, which is made to be exact and plain, takes {slow * 1e6:.1f} µs,")
    print(f"{slow / fast:.1f} times as long, and gives the same answer to {same} of {len(labels)} pictures.")


if __name__ == "__main__":
    main()
