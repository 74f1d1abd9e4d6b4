"""What scenes begin with: each is the program of a process of its own, in front of the double."""

import os
from collections import Counter

import numpy as np

from dovetail_npu_vsi.chips import CHIPS
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.ovx.driver import OvxDriver
from dovetail_npu_vsi.ovx.places import Places
from dovetail_npu_vsi.program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
    Tensor,
    Weights,
)

__all__ = [
    "CHIPS",
    "Binary",
    "Concat",
    "Convolution",
    "FullyConnected",
    "Function",
    "Pad",
    "Permute",
    "Places",
    "Pooling",
    "Program",
    "Requantize",
    "Reshape",
    "Resize",
    "Softmax",
    "Tensor",
    "VsiError",
    "Weights",
    "aligned",
    "binary",
    "calls",
    "check_no_child_is_left",
    "driver",
    "error_of",
    "left",
    "log",
    "np",
    "one",
    "os",
    "runs",
    "set_faults",
    "two",
    "weights",
]

chip = CHIPS[0]


def set_faults(text):
    """Take other faults; a child that is started later has them too."""
    os.environ["DOVETAIL_DOUBLE"] = text


def driver(**more):
    """The driver in front of the double: in this process, or in a child if the scene has an SDK."""
    sdk, library = os.environ["SCENE_SDK"], os.environ["SCENE_LIBRARY"]
    places = Places(sdk=sdk, device=os.devnull) if sdk else Places(ovxlib=library, openvx=library, device=os.devnull)
    return OvxDriver(places, **more)


def log():
    """The lines that the double has logged so far, in all processes."""
    path = os.environ["DOVETAIL_DOUBLE_LOG"]
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return file.read().splitlines()


def calls():
    """How often each function was called."""
    return Counter(line for line in log() if " " not in line and line[0] not in "+-")


def left():
    """The objects that were made and not released, but for the device, which stays open."""
    count = Counter()
    for line in log():
        if line[0] in "+-":
            count[line[1:]] += 1 if line[0] == "+" else -1
    del count["context"]
    return {kind: number for kind, number in count.items() if number}


def weights(shape, scales=1):
    """Weights and a bias of zeros."""
    zeros = np.zeros(shape, np.int8 if scales > 1 else np.uint8)
    return Weights(zeros, (0.5,) * scales, (0,) * scales, np.zeros(shape[0], np.int32))


def tensor(shape, scale=0.5, zero_point=100, dtype="uint8"):
    """A tensor of a program."""
    return Tensor("t", shape, dtype, scale, zero_point)


def one(kind=Requantize, x=(4, 16), y=None, tensors=None, **attributes):
    """A program of one operation."""
    bounds = {"low": 0, "high": 255} if "low" in kind.__dataclass_fields__ else {}
    tensors = tensors or (tensor(x), tensor(x if y is None else y))
    inputs = tuple(range(len(tensors) - 1))
    operation = kind(**{"name": "only", "inputs": inputs, "output": len(inputs), **bounds, **attributes})
    return Program("net", tensors, (operation,), inputs, (len(inputs),))


def two():
    """A program of two operations, with two outputs, and two inputs that are named backwards."""
    shape = (4, 16)
    operations = (
        Binary(name="sum", inputs=(0, 1), output=2, function="add", low=0, high=255),
        Requantize(name="other", inputs=(2,), output=3, low=0, high=255),
    )
    return Program("net", tuple(tensor(shape) for _ in range(4)), operations, (1, 0), (3, 2))


def binary(program=None):
    """What the double's compiler makes of a program."""
    return driver().compile(program or one(), chip, lambda fraction, text: None)


def aligned(nbytes, beyond=0):
    """Memory that begins so many bytes after a multiple of 64."""
    room = np.zeros(nbytes + 128, np.uint8)
    begin = -room.ctypes.data % 64 + beyond
    return room[begin : begin + nbytes]


def runs(executable, nodes=1, beyond=0):
    """Fail where runs do not give what the double computes."""
    inputs, outputs = (
        [aligned(int(np.prod(operand.shape)), beyond) for operand in group] for group in (executable.inputs, executable.outputs)
    )
    executable.bind([array.ctypes.data for array in (*inputs, *outputs)])
    for turn in range(3):
        for k, array in enumerate(inputs):
            array[:] = np.arange(array.size) + 7 * k + turn
        executable.submit()
        executable.wait(lambda: False)
        for k, array in enumerate(outputs):
            np.testing.assert_array_equal(array, inputs[k % len(inputs)] + np.uint8(nodes))


def error_of(function, *arguments, **more):
    """Return the error that a call raises."""
    try:
        function(*arguments, **more)
    except VsiError as error:
        return error
    raise AssertionError("nothing was raised")


def check_no_child_is_left():
    """Fail where this process has a child that has not ended, or that nobody waited for."""
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise AssertionError("a child process is left")
