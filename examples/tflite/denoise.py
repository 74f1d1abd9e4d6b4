"""Take noise out of speech, block by block, as it comes from a microphone.

Call it as `python denoise.py MODEL.tflite NOISY.wav CLEAN.wav`.

The network remembers: two recurrent layers keep their states from one block to the next. A stream
begins with `net.reset_state()`.
"""

import sys
import time
import wave

import numpy as np

import dovetail

RATE = 16000  # samples a second
BLOCK, STEP = 512, 128  # samples: blocks overlap


def mask_of(net: dovetail.LoadedNetwork, spectrum: np.ndarray) -> np.ndarray:
    """Return how much of each frequency [257] is speech."""
    given, stated = net.inputs[0], net.outputs[0]
    if given.quantization is None or stated.quantization is None:
        raise SystemExit("give the quantized network")
    steps = np.rint(np.abs(spectrum) / given.quantization.scale[0]) + given.quantization.zero_point[0]
    fed = np.clip(steps, *given.dtype.limits).astype(given.dtype.numpy)
    mask = net.run({given.name: fed.reshape(given.sizes)})[stated.name]
    return (mask.reshape(-1).astype(np.float32) - stated.quantization.zero_point[0]) * stated.quantization.scale[0]


def cleaned(net: dovetail.LoadedNetwork, samples: np.ndarray) -> np.ndarray:
    """Return a stream without its noise."""
    net.reset_state()
    result = np.zeros_like(samples)
    for start in range(0, len(samples) - BLOCK + 1, STEP):
        spectrum = np.fft.rfft(samples[start : start + BLOCK])
        result[start : start + BLOCK] += np.fft.irfft(spectrum * mask_of(net, spectrum)) * (STEP / BLOCK)
    return result


def main(model: str, noisy: str, clean: str) -> None:
    """Clean one file of 16 bits, one channel, 16 kHz."""
    with wave.open(noisy, "rb") as file:
        if (file.getframerate(), file.getsampwidth(), file.getnchannels()) != (RATE, 2, 1):
            sys.exit(f"{noisy} is not of 16 bits, one channel and {RATE} Hz")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
    with dovetail.load(model, threads=1) as net:
        start = time.perf_counter()
        result = cleaned(net, samples)
        seconds = time.perf_counter() - start
        again = cleaned(net, samples[:RATE])
    blocks = (len(samples) - BLOCK) // STEP + 1
    print(f"{len(samples) / RATE:.1f} s of sound in {seconds:.2f} s, {seconds / blocks * 1e3:.3f} ms a block")
    whole = len(again) - BLOCK  # behind it blocks overlap that `again` lacks
    same = np.array_equal(again[:whole], result[:whole])
    print("a new stream of the same sound", "gives the same" if same else "differs")
    with wave.open(clean, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
        file.writeframes((np.clip(result, -1, 1) * 32767).round().astype("<i2").tobytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
