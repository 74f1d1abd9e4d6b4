"""Run a fuzzing campaign with planted defects and print the outcome; `test_fuzz.py` starts it.

It is a process of its own because the fuzzer forks, and a process that tests run in has threads.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402  # after the number of its threads
from onnx import TensorProto, helper  # noqa: E402
from tools.fuzz.campaign import Campaign, Report  # noqa: E402  # found by the lines above
from tools.fuzz.fork_server import ForkServer, Limits  # noqa: E402
from tools.fuzz.minimizing import minimize  # noqa: E402
from tools.fuzz.mutants import Mutant  # noqa: E402
from tools.fuzz.seeds import Seeds  # noqa: E402
from tools.fuzz.verdicts import Outcome, Verdict  # noqa: E402

import dovetail  # noqa: E402

PLANTS = ("Softsign", "Sinh", "Cosh", "Asinh", "Acosh", "Atan", "Tan", "Erf", "Elu")


class WrongNetwork:
    """A network whose answers are off by a little, or are not there at all."""

    def __init__(self, network, data, backends):
        self.network, self.data, self.backends = network, data, backends

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.network.unload()

    def __getattr__(self, name):
        return getattr(self.network, name)

    def run(self, feeds, timeout):
        answers = self.network.run(feeds, timeout=timeout)
        if b"Atan" in self.data and "CpuAcc" in self.backends:
            return {name: value * np.float32(1.01) for name, value in answers.items()}
        if b"Erf" in self.data:
            while True:
                time.sleep(1)
        return answers


def load(path, **arguments):
    """Load, and do to models of some operators what must not go unnoticed."""
    data = Path(path).read_bytes()
    if b"Softsign" in data:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"Sinh" in data:
        while True:
            pass
    if b"Cosh" in data:
        hoard = np.ones(1 << 27, np.uint8)
        del hoard
    if b"Asinh" in data:
        raise RuntimeError("planted")
    if b"Acosh" in data and "CpuAcc" in arguments["backends"]:
        raise dovetail.ModelError("planted")
    if b"Tan" in data:
        raise dovetail.ModelError("planted \udcff")
    return WrongNetwork(dovetail.load(path, **arguments), data, arguments["backends"])


def model(operator):
    """Make a model of a few layers, one of them planted."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node(operator, ["a"], ["b"]),
        helper.make_node("Neg", ["b"], ["y"]),
    ]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ends, doc_string="something to be left out")
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return Mutant(made.SerializeToString(), {"x": np.array([0.1, 0.2, 0.3, 0.4], np.float32)})


def take_for_a_moment():
    """Return a task whose first number takes too much, and ends before its child is killed."""

    def task(number, stage):
        stage("taking")  # where it is killed before it ends, as on a busy machine, it is to blame all the same
        if number == 0:
            hoard = np.ones(1 << 27, np.uint8)
            time.sleep(0.15)
            del hoard
        else:
            time.sleep(0.4)
        return Outcome(Verdict.RAN, "done")

    return task


def main():
    """Try every plant twice: once with all others in one batch, once minimized."""
    limits = Limits(seconds=1.0, memory=96 << 20)
    with Campaign(Seeds({}, []), limits=limits, load=load) as campaign:
        outcomes = dict(campaign.each([model(operator) for operator in PLANTS]))
        smaller = minimize(model("Asinh"), lambda mutant: campaign.alone(mutant).signature == outcomes[3].signature, 30)
        report = Report(1, "")
        for number, outcome in outcomes.items():
            report.add(number, outcome)
    try:
        list(ForkServer(lambda: 1 / 0, limits=limits).run([[0]]))
    except RuntimeError as error:
        stillborn = str(error)
    moment = dict(ForkServer(take_for_a_moment, limits=limits).run([[0, 1, 2]]))
    made = {operator: outcomes[number].as_data() for number, operator in enumerate(PLANTS)}
    sizes = [len(model("Asinh").data), len(smaller.data), b"Asinh" in smaller.data]
    told = {"outcomes": made, "sizes": sizes, "stillborn": stillborn, "findings": len(report.as_data()["findings"])}
    print(json.dumps(told | {"moment": [moment[number].verdict for number in range(3)]}))


if __name__ == "__main__":
    main()
