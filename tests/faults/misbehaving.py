"""A backend of which one method misbehaves, and a network beside it that must not notice."""

import gc
import os
import threading
import weakref

import numpy as np

from dovetail import BackendId, Capabilities, Device, MemoryDomain, Network, NoOptions, Support
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.memory import HostMemory
from dovetail.contract.subgraph import OptimizationViews

DOMAIN = MemoryDomain("Faulty", 0, "private")
X = np.linspace(-2, 2, 12, dtype=np.float32)
RIGHT = np.maximum(2 * np.maximum(X, 0), 0)


class Sly(BaseException):
    """No Exception: a careless `except Exception` lets it through."""


class Unprintable(Exception):
    """Cannot be put into a message."""

    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


RAISED = {
    "ValueError": lambda: ValueError("on purpose"),
    "MemoryError": lambda: MemoryError("on purpose"),
    "SystemExit": lambda: SystemExit(3),
    "BaseException": lambda: Sly("on purpose"),
    "unprintable": Unprintable,
}
ANSWERED = {"None": None, "object": object(), "number": 7}


class Fault:
    """What goes wrong, and where."""

    def __init__(self, method="", fault=""):
        self.method, self.fault, self.raised = method, fault, []

    def __call__(self, method, honest):
        """Do what the honest method would do, unless this is where the fault is."""
        if method != self.method:
            return honest()
        if self.fault in RAISED:
            self.raised.append(method)
            raise RAISED[self.fault]()
        return ANSWERED[self.fault]


class Handle(ITensorHandle):
    released = 0

    def __init__(self, fault, nbytes, alignment):
        self.fault, self.memory = fault, HostMemory(nbytes, alignment)
        self.domain, self.nbytes = DOMAIN, nbytes

    @property
    def address(self):
        return self.fault("address", lambda: self.memory.address)

    def release(self):
        type(self).released += 1
        self.fault("release", self.memory.release)


class Manager(IMemoryManager):
    domain = DOMAIN

    def __init__(self, fault):
        self.fault = fault

    def allocate(self, nbytes, alignment):
        return self.fault("allocate", lambda: Handle(self.fault, nbytes, alignment))


ALIVE = weakref.WeakSet()


class Workload:
    def __init__(self, fault, function):
        self.fault, self.function = fault, function
        ALIVE.add(self)

    def execute(self, inputs, outputs):
        self.fault("execute", lambda: self.function(inputs, outputs))


class CapsuleWorkload(Workload):
    def __dovetail_workload__(self):
        return self.fault("__dovetail_workload__", lambda: None)


def relu(inputs, outputs):
    np.maximum(inputs[0], 0, out=outputs[0])


def add(inputs, outputs):
    np.add(inputs[0], inputs[1], out=outputs[0])


def copy(inputs, outputs):
    outputs[0][...] = inputs[0]


class Factory(IWorkloadFactory):
    def __init__(self, fault):
        self.fault = fault

    def create_workload(self, layer):
        kind = CapsuleWorkload if self.fault.method == "__dovetail_workload__" else Workload
        function = add if layer.kind.endswith("ElementwiseBinary") else relu
        return self.fault("create_workload", lambda: kind(self.fault, function))

    def create_copy(self, source, target, info):
        return self.fault("create_copy", lambda: Workload(Fault(), copy))


class Context(IBackendContext):
    def __init__(self, fault):
        self.fault, self.told = fault, []

    def _tell(self, name):
        self.told.append(name)
        self.fault(name, lambda: None)

    def before_load(self, network):
        self._tell("before_load")

    def after_load(self, network, error):
        self._tell("after_load")

    def before_unload(self, network):
        self._tell("before_unload")

    def after_unload(self, network):
        self._tell("after_unload")

    def close(self):
        self._tell("close")


class FaultyBackend(IBackend):
    """Runs ReLU and addition in memory of its own; one method misbehaves."""

    def __init__(self, method="", fault=""):
        self.fault = Fault(method, fault)
        self.contexts = []

    @property
    def id(self):
        return self.fault("id", lambda: BackendId("Faulty"))

    @property
    def options_type(self):
        return self.fault("options_type", lambda: NoOptions)

    @property
    def kind_versions(self):
        return self.fault("kind_versions", dict)

    def supports(self, layer, options, device):
        return self.fault("supports", Support.yes)

    def create_workload_factory(self, context, resources, options):
        return self.fault("create_workload_factory", lambda: Factory(self.fault))

    def create_context(self, device, resources, options):
        def honest():
            self.contexts.append(Context(self.fault))
            return self.contexts[-1]

        return self.fault("create_context", honest)

    def memory_domains(self, device):
        return self.fault("memory_domains", lambda: (DOMAIN,))

    def importable_domains(self, device):
        return self.fault("importable_domains", frozenset)

    def create_memory_manager(self, context, domain):
        return self.fault("create_memory_manager", lambda: Manager(self.fault))

    def optimize_subgraph(self, view, options, device):
        def honest():
            views = OptimizationViews(view)
            views.untouched(view)
            return views

        return self.fault("optimize_subgraph", honest)

    def capabilities(self):
        return self.fault("capabilities", Capabilities)

    def devices(self):
        return self.fault("devices", lambda: (Device(0, "one"),))


def network(name="net"):
    net = Network(name)
    first = net.relu(net.input("x", (12,)), name="first")
    net.output(net.relu(net.addition(first, first, name="second"), name="third"), "y")
    return net


def load(runtime, backend, **arguments):
    arguments = {"passes": True, **arguments}
    if backend.fault.method == "capabilities":
        arguments["reduce_float"] = "float16"
    return runtime.load(network(), optimize={"backends": [backend], **arguments})


def run(net):
    return net.run({"x": X})["y"]


def held():
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()
