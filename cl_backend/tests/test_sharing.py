"""One device for several networks, threads and processes, and the host around it."""

import threading

import numpy as np
import pytest

import dovetail
from dovetail_cl.devices import opened

ELEMENTS = 3001
THREADS, RUNS = 8, 12


def chain(name, seed):
    """A network of some layers, with sums of many elements and tensors of several sizes."""
    random = np.random.default_rng(seed)
    net = dovetail.Network(name)
    x = net.input("x", (3, ELEMENTS))
    scaled = net.multiplication(x, net.constant(random.standard_normal((3, 1), np.float32)))
    shifted = net.addition(scaled, net.constant(random.standard_normal(ELEMENTS, np.float32)))
    net.output(net.relu(net.addition(net.relu(shifted), x)), "y")
    return net


def test_two_networks_and_eight_threads_on_one_device_give_the_same_bits(backend):
    feeds = [{"x": np.random.default_rng(seed).standard_normal((3, ELEMENTS), np.float32)} for seed in range(THREADS)]
    with dovetail.load(chain("one", 1), [backend]) as one, dovetail.load(chain("two", 2), [backend]) as two:
        expected = [[net.run(given)["y"] for given in feeds] for net in (one, two)]
        wrong = []

        def work(number):
            try:
                for turn in range(RUNS):
                    which = (number + turn) % 2
                    if not np.array_equal((one, two)[which].run(feeds[number])["y"], expected[which][number]):
                        wrong.append((number, turn))
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []
    with dovetail.load(chain("two", 2), ["CpuRef"]) as reference:
        np.testing.assert_allclose(expected[1][0], reference.run(feeds[0])["y"], rtol=1e-6, atol=1e-6)


def test_networks_are_loaded_and_unloaded_beside_runs(backend):
    """What is freed and allocated meanwhile may have the address of what was there before."""
    feeds = {"x": np.random.default_rng(5).standard_normal((3, ELEMENTS), np.float32)}
    wrong = []

    def work(seed):
        try:
            for _ in range(6):
                with dovetail.load(chain("own", seed), [backend]) as net:
                    found = [net.run(feeds)["y"] for _ in range(3)]
                wrong.extend(one for one in found if not np.array_equal(one, expected[seed]))
        except BaseException as error:
            wrong.append(error)

    expected = {}
    for seed in range(4):
        with dovetail.load(chain("own", seed), [backend]) as net:
            expected[seed] = net.run(feeds)["y"]
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


INTERRUPTED = """
import os, signal, threading, time
import numpy as np
import dovetail
from dovetail.discovery.host_state import HostState

before = HostState.capture()
network = dovetail.Network("net")
network.output(network.relu(network.input("x", (4, 6))), "y")
with dovetail.load(network, ["GpuAcc"]) as net:
    net.run({"x": np.ones((4, 6), np.float32)})
    changes = [one for one in before.changes_to(HostState.capture()) if "signal" in one or "floating" in one]
    assert not changes, changes
    threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            net.run({"x": np.ones((4, 6), np.float32)})
    except KeyboardInterrupt:
        print("interrupted")
    net.run({"x": np.ones((4, 6), np.float32)})
"""


@pytest.mark.parametrize("programs", ["built", "kept"])
def test_ctrl_c_works_after_a_device_was_opened(backend, child, tmp_path, programs):
    """PoCL's compiler takes the handlers over when it builds, also for what it has kept itself."""
    cache = tmp_path / "pocl"
    cache.mkdir()
    for _ in range(1 if programs == "built" else 2):
        assert child(INTERRUPTED, POCL_CACHE_DIR=str(cache)) == "interrupted\n"


KEPT = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")
import numpy as np
import dovetail

network = dovetail.Network("net")
network.output(network.relu(network.input("x", (4, 6))), "y")
with dovetail.load(network, ["GpuAcc"], options={"GpuAcc": {"artefacts": sys.argv[1]}}) as net:
    assert net.run({"x": np.full((4, 6), 3, np.float32)})["y"].sum() == 72
"""


def test_a_second_process_builds_nothing(backend, child, kept):
    assert "GpuAcc: building" in child(KEPT, kept)
    assert "GpuAcc: building" not in child(KEPT, kept)


FINISHED = """
import os, sys
import numpy as np
import dovetail

def groups():
    return sum(os.path.basename(path).startswith("1-1-1") for path, _, _ in os.walk(os.environ["POCL_CACHE_DIR"]))

network = dovetail.Network("net")
network.output(network.relu(network.input("x", (4, 6))), "y")
with dovetail.load(network, ["GpuAcc"], options={"GpuAcc": {"artefacts": sys.argv[1]}}) as net:
    before = groups()
    net.run({"x": np.ones((4, 6), np.float32)})
    print(before, groups())
"""


def test_what_is_kept_is_finished(backend, child, kept, tmp_path):
    """PoCL compiles work groups when a kernel first runs: what is kept must have them."""
    if not opened(0).facts["compiles_late"]:
        pytest.skip("its driver compiles all that there is when a program is built")
    assert child(FINISHED, kept, POCL_CACHE_DIR=str(tmp_path / "first")) == "0 1\n"
    assert child(FINISHED, kept, POCL_CACHE_DIR=str(tmp_path / "second")) == "1 1\n"
