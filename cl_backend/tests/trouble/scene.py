"""What scenes begin with: each is the program of a process of its own, in front of the double."""

import ctypes
import json
import os
import signal
import sys
import threading
import time

import numpy as np

import dovetail
from dovetail import BackendUnavailableError, DovetailError, ErrorCode

__all__ = [
    "BackendUnavailableError",
    "DovetailError",
    "ErrorCode",
    "count",
    "cross_in_chunks",
    "double",
    "dovetail",
    "error_of",
    "faults",
    "feeds",
    "given",
    "later",
    "load",
    "network",
    "nothing_is_left",
    "np",
    "of_runs",
    "os",
    "others_go_on",
    "runs",
    "set_faults",
    "signal",
    "sys",
    "time",
]

feeds = {"x": np.arange(1, 25, dtype=np.float32).reshape(4, 6)}
faults = os.environ["DOVETAIL_DOUBLE"]
"""With which the scene began."""
given = json.loads(os.environ["SCENE_GIVEN"])
"""What the test gives to its scene, by name."""

_library = os.environ["DOVETAIL_OPENCL_LIB"]
double = ctypes.CDLL(_library) if os.path.exists(_library) else None


def set_faults(text):
    """Take other faults; commands and buffers are counted from here."""
    double.double_set(text.encode())


def count(what):
    """How many objects of a kind there are, or how often something happened: see `double.h`."""
    return double.double_count(what.encode())


def of_runs():
    """How many buffers, kernels, events and queues there are, without the queue of the device."""
    return [count(what) for what in ("buffer", "kernel", "event")] + [count("queue") - 1]


def nothing_is_left():
    """Fail where objects of runs are left."""
    assert of_runs() == [0, 0, 0, 0], of_runs()


def cross_in_chunks():
    """Have tensors of the network cross in three chunks each way; before anything is loaded."""
    from dovetail_cl.devices import all_facts

    all_facts()[0].update(chunk=32, staged_from=1)


def network(name="net"):
    """A network of one layer, which the double can carry out."""
    net = dovetail.Network(name)
    net.output(net.relu(net.input("x", (4, 6)), name="clamp"), "y")
    return net


def load(*backends, **more):
    """Load it on GpuAcc, or on other backends."""
    return dovetail.load(network(), backends or ["GpuAcc"], **more)


def runs(net):
    """Fail where the network does not give what it should."""
    np.testing.assert_array_equal(net.run(feeds)["y"], feeds["x"])


def others_go_on():
    """Fail where a network on another backend does not run."""
    with load("CpuRef") as other:
        runs(other)


def error_of(function, *arguments, **more):
    """Return the error that a call raises."""
    try:
        function(*arguments, **more)
    except DovetailError as error:
        return error
    raise AssertionError("nothing was raised")


def later(seconds, function):
    """Call a function some time later, on a thread."""
    thread = threading.Timer(seconds, function)
    thread.start()
    return thread
