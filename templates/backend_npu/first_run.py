"""Compare a small int8 network on the NPU and CpuRef: a first try, and a pattern for tests."""

import json
from pathlib import Path

import numpy as np

import dovetail
from dovetail import DataLayout, Network, Quantization
from dovetail.layers import Convolution2d

MANIFEST = Path(__file__).parent / "src" / "dovetail_acme_npu" / "dovetail-backend.json"
ID = json.loads(MANIFEST.read_text("utf-8"))["id"]


def network():
    """Return a convolution with ReLU, an average over the image, a fully connected layer; NHWC."""
    rng = np.random.default_rng(0)
    made = Network("first run")
    image = made.input("image", (1, 16, 16, 8), "int8", Quantization.per_tensor(0.02))
    filters = made.constant(rng.integers(-127, 128, (16, 3, 3, 8), np.int8), quantization=Quantization.per_tensor(0.01))
    bias = made.constant(rng.integers(-2000, 2000, 16, np.int32))
    convolution = Convolution2d(layout=DataLayout.NHWC, padding=(1, 1, 1, 1), activation="relu")
    features = made.add(convolution, image, filters, bias, quantization=Quantization.per_tensor(0.1, -128)).output
    average = made.flatten(made.global_pooling(features, "average", layout="NHWC"))
    weights = made.constant(rng.integers(-127, 128, (10, 16), np.int8), quantization=Quantization.per_tensor(0.01))
    scores = made.fully_connected(average, weights, quantization=Quantization.per_tensor(0.05))
    made.output(scores, name="scores")
    return made


feeds = {"image": np.random.default_rng(1).integers(-128, 128, (1, 16, 16, 8), np.int8)}
results = []
for backends in (["CpuRef"], [ID, "CpuRef"]):
    with dovetail.load(network(), backends) as net:
        results.append(net.run(feeds)["scores"])
        placement = net.placement
print(placement.explain())
assert ID in {layer.backend for layer in placement.layers}
np.testing.assert_allclose(*results, atol=1)  # Rounding may go either way.
print(f"{ID} computes what CpuRef does:", *results[1].ravel())
