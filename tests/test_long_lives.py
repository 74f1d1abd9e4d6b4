"""Processes that live long: unloading leaves nothing, and to end without it is quiet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
WARM, MORE = 150, 300
LOST = 24 << 10
"""Bytes of one load that would be seen: a copy of the weights has 97 kB."""

CYCLES = """
import gc, os, sys
import numpy as np
import dovetail

how, path, warm, more = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
x = {"image": np.zeros((2, 1, 8, 8), np.float32)}
content = open(path, "rb").read()
backends = ["CpuAcc", "CpuRef"]


def cycle():
    if how == "runtime":
        with dovetail.Runtime(threads=2) as runtime:
            net = runtime.load(dovetail.parse(path), optimize={"backends": backends})
            net.run(x)
            net.unload()
        return
    net = dovetail.load(content if how == "bytes" else path, backends)
    net.run(x)
    net.submit(x).result()
    net.bind(x).run()
    if how == "dropped":
        return
    net.unload()


def held():
    gc.collect()
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(gc.get_objects()), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


for _ in range(warm):
    cycle()
before = held()
for _ in range(more):
    cycle()
print(*(after - first for after, first in zip(held(), before)))
"""


def child(program: str, tmp_path: Path, *arguments: object, plans: str = "on") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DOVETAIL_CACHE_DIR": str(tmp_path / "cache"), "DOVETAIL_PLANS": plans}
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=110)


@pytest.mark.parametrize(
    ("how", "plans"),
    [
        ("path", "on"),
        ("dropped", "on"),
        *(pytest.param(how, "off", marks=pytest.mark.slow) for how in ("path", "bytes", "runtime")),  # they plan each time
    ],
)
def test_loads_and_unloads_leave_nothing(how: str, plans: str, tmp_path: Path) -> None:
    done = child(CYCLES, tmp_path, how, DIGITS, WARM, MORE, plans=plans)
    assert done.returncode == 0, done.stderr
    resident, objects, descriptors, threads = map(int, done.stdout.split())
    assert resident < MORE * LOST
    assert abs(objects) < MORE // 3, "less than one object for three loads"
    assert (descriptors, threads) == (0, 0)


ENDS = """
import asyncio, sys, threading, time
import numpy as np
import dovetail

how, path = sys.argv[1:]
x = {"image": np.zeros((2, 1, 8, 8), np.float32)}
isolate = {"isolate": "CpuRef"} if how.startswith("isolated") else {}
nets = [dovetail.load(path, ["CpuAcc", "CpuRef"]), dovetail.load(path, ["CpuRef"], **isolate)]


class Cycle:
    pass


async def serve():
    await asyncio.gather(*(net.run_async(x) for net in nets * 20))


asyncio.run(serve())
if "cycle" in how:
    cycle = Cycle()
    cycle.itself, cycle.nets = cycle, [*nets, dovetail.load(path)]
    cycle.bindings = [net.bind(x) for net in cycle.nets]
    for binding in cycle.bindings:
        binding.run()
elif how == "submitted":
    futures = [net.submit(x) for net in nets * 100]
elif how == "daemon threads":
    def call(net):
        while True:
            net.run(x)
    for net in nets:
        threading.Thread(target=call, args=(net,), daemon=True).start()
    time.sleep(0.2)
elif how == "exit":
    sys.exit(0)
elif how == "runtime":
    runtime = dovetail.Runtime(threads=2)
    net = runtime.load(dovetail.parse(path))
    net.run(x)
elif how == "profile":
    with nets[0].profiling() as profile:
        nets[0].run(x)
"""


@pytest.mark.parametrize(
    "how", ["plain", "cycle", "submitted", "daemon threads", "exit", "runtime", "profile", "isolated", "isolated cycle"]
)
def test_a_process_that_never_unloads_ends_without_a_word(how: str, tmp_path: Path) -> None:
    done = child(ENDS, tmp_path, how, DIGITS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
