"""Run one network on three backends, and show where each layer and each copy went.

Convolutions go to VsiNpu, pooling to CpuAcc, the fully connected layer to GpuAcc where it is ready,
else to CpuRef.
"""

import sys
from pathlib import Path

import numpy as np

import dovetail

MADE = "examples/hybrid/README.md says how it is made"
HOMES = {"dovetail.Convolution2d": "VsiNpu", "dovetail.Pooling2d": "CpuAcc"}


def calibrated(folder: Path) -> np.ndarray:
    """Return the pictures that come with the network: float32 [40, 1, 8, 8]."""
    with np.load(folder / "samples.npz") as samples:
        return np.asarray(samples["image"])


def main() -> None:
    """Run the model that the command line names, or say why not, and how it is made."""
    if len(sys.argv) != 2:
        sys.exit(f"give the quantized model: {MADE}")
    try:
        compare(sys.argv[1])
    except dovetail.PlacementError as error:
        name, said = next(iter(error.details["refusals"].items()))
        sys.exit(f"{sys.argv[1]} is not the quantized model: layer {name!r}: {said[0]}; {MADE}")
    except dovetail.BackendUnavailableError as error:
        sys.exit(str(error))
    except (dovetail.ModelError, dovetail.InputError) as error:  # another file, or another network
        sys.exit(f"{error.message}; {MADE}")


def compare(model: str) -> None:
    """Run a model on three backends and on the reference, and print where its layers went."""
    ready = {backend.id for backend in dovetail.backends() if backend.state.is_ready}
    last = "GpuAcc" if "GpuAcc" in ready and can_open("GpuAcc") else "CpuRef"
    homes = {**HOMES, "dovetail.FullyConnected": last}
    backends = list(dict.fromkeys(["VsiNpu", "CpuAcc", last, "CpuRef"]))
    images = calibrated(Path(__file__).resolve().parents[1] / "digits")
    with dovetail.load(model, backends, require=homes) as net, dovetail.load(model, ["CpuRef"]) as reference:
        answers = net.run({"image": images})["probabilities"].argmax(axis=1)
        expected = reference.run({"image": images})["probabilities"].argmax(axis=1)
        print(net.placement.explain())
    print(f"\nthe same answer as CpuRef alone to {(answers == expected).sum()} of {len(images)} pictures")


def can_open(backend: str) -> bool:
    """Say whether a backend has a device on this machine, by loading a network of one layer."""
    network = dovetail.Network("probe")
    network.output(network.relu(network.input("x", (1,))), "y")
    try:
        dovetail.load(network, [backend], fallback=False).unload()
    except dovetail.BackendUnavailableError as error:
        print(f"{backend} is not used: {error.message}\n")
        return False
    return True


if __name__ == "__main__":
    main()
