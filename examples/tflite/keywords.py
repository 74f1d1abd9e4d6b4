"""Recognise spoken words from their spectra, and count how many are right.

Call it as `python keywords.py MODEL.tflite DATA.npz`.
"""

import sys

import numpy as np

import dovetail

WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes", "silence", "unknown")


def main(model: str, data: str) -> None:
    """Run the network on each recording: 49 slices of time, of 10 cepstral coefficients."""
    with np.load(data) as held:
        spectra, said = held["x_int8"], held["y"]
    with dovetail.load(model) as net:
        spectrum, scores = net.inputs[0].name, net.outputs[0].name
        heard = np.array([net.run({spectrum: one[np.newaxis]})[scores].argmax() for one in spectra])
    for index in (0, 100, 200, 300):
        verdict = "right" if heard[index] == said[index] else f"wrong, it is {WORDS[said[index]]!r}"
        print(f"recording {index}: {WORDS[heard[index]]!r}, {verdict}")
    right = heard == said
    print(f"{right.sum()} of {len(said)} right, {right.mean():.1%}")
    for number, word in enumerate(WORDS):
        print(f"  {word:8} {right[said == number].mean():6.1%} of {(said == number).sum()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
