"""Names and fields that are worked out late: from several threads, in listings, at the end."""

import copy
import pickle
import subprocess
import sys

import dovetail.layers
import dovetail.optimizer
from dovetail.contract.device import Device

RACE = """
import sys, threading
sys.setswitchinterval(1e-6)
from dovetail import Network
from dovetail.layers import *
import dovetail.layers as layers
from dovetail.graph.descriptor import Descriptor
kinds = [kind for name in layers.__all__ if isinstance(kind := getattr(layers, name), type) and issubclass(kind, Descriptor)]
barrier, failures = threading.Barrier(4), []
def ask():
    barrier.wait()
    for kind in kinds:
        own = [name for name in kind.__dict__.get("__annotations__", ()) if "ClassVar" not in str(kind.__annotations__[name])]
        missing = [name for name in own if name not in kind.__dataclass_fields__]
        if missing:
            failures.append((kind.__name__, missing))
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failures[:3], len(kinds) > 40)
"""

KEPT = """
import sys, numpy as np, dovetail
network = dovetail.Network("kept")
network.output(network.relu(network.input("x", (4,))), "y")
sys.kept = dovetail.load(network, ["CpuRef"])
sys.kept.run({"x": np.zeros(4, np.float32)})
"""


def child(source):
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip(), done.stderr.strip()


def test_threads_see_all_fields_of_a_kind_or_wait():
    for _ in range(2):
        assert child(RACE) == ("[] True", "")


def test_a_network_that_outlives_the_modules_ends_silently():
    assert child(KEPT) == ("", "")


def test_late_names_are_listed():
    for module in (dovetail.layers, dovetail.optimizer):
        assert set(module.__all__) <= set(dir(module))


def test_a_device_is_copied_and_pickled_with_its_facts():
    device = Device(index=1, name="npu", facts={"lanes": 4})
    for other in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert (other, dict(other.facts)) == (device, {"lanes": 4})
