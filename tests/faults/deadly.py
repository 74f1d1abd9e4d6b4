"""Run a workload that does what no process survives: `python -m faults.deadly WHAT`."""

import ctypes
import faulthandler
import os
import signal
import sys
import time

from dovetail import RunError, Runtime

from .misbehaving import Factory, FaultyBackend, Workload, X, load, relu


def misbehave(what):
    """Run a network whose second workload does this."""

    def body(inputs, outputs):
        relu(inputs, outputs)
        if what == "segfault":
            ctypes.string_at(0)
        elif what == "abort":
            os.abort()
        elif what == "division":
            os.kill(os.getpid(), signal.SIGFPE)
        elif what == "exit":
            os._exit(3)
        elif what == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif what == "loop":
            time.sleep(3600)
        elif what == "loop with the GIL":
            ctypes.PyDLL(None).sleep(3600)
        elif what == "folder":
            os.chdir("/")
            os.umask(0)

    class Misbehaving(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            factory = Factory(self.fault)
            factory.create_workload = lambda layer: Workload(self.fault, body if layer.name == "second" else relu)
            return factory

        def optimize_subgraph(self, view, options, device):
            if what == "optimizer":
                time.sleep(3600)
            return super().optimize_subgraph(view, options, device)

    faulthandler.dump_traceback_later(3)
    runtime = Runtime(threads=2)
    net = load(runtime, Misbehaving())
    print("loaded", flush=True)
    try:
        net.run({"x": X}, timeout=0.3)
        print("ran in", os.getcwd(), flush=True)
    except RunError as error:
        print(error.code, flush=True)


if __name__ == "__main__":
    misbehave(sys.argv[1])
