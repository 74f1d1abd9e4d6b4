"""Tables under several threads, under Ctrl-C and across fork()."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import Device
from dovetail.ground.errors import BackendError, ErrorCode
from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary
from dovetail.native import load_backend

ADD = ElementwiseBinary(operation=BinaryOperation("add"))


def additions() -> dovetail.Network:
    made = dovetail.Network("additions")
    a, b, c = (made.input(name, (2, 3)) for name in "abc")
    made.output(made.add(ADD, made.add(ADD, a, b, name="first"), c, name="second").output, "out")
    return made


FEEDS = {name: np.full((2, 3), value, np.float32) for name, value in zip("abc", (1, 2, 4), strict=True)}


class Slow:
    """A load on another thread that is inside the table until `release`."""

    def __init__(self, backend: Any) -> None:
        self.inside, self.free = threading.Event(), threading.Event()
        self.result: Any = None
        self.backend = backend
        self.thread = threading.Thread(target=self._load)
        self.thread.start()
        assert self.inside.wait(30)

    def _load(self) -> None:
        with (
            dovetail.Runtime() as runtime,
            dovetail.load(additions(), self.backend, runtime=runtime, progress=self._hold) as net,
        ):
            self.result = net.run(FEEDS)["out"]

    def _hold(self, *_: object) -> None:
        self.inside.set()
        assert self.free.wait(60)

    def release(self) -> None:
        self.free.set()
        self.thread.join(60)
        np.testing.assert_array_equal(self.result, np.full((2, 3), 7, np.float32))


def test_ctrl_c_ends_the_wait_for_a_table_that_compiles(build: Any) -> None:
    backend = load_backend(build("compiler.c"))
    slow = Slow(backend)
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            backend.supports(additions().outputs[0].inputs[0].source.layer, backend.options_type(), Device())
        assert time.monotonic() - begin < 10
    finally:
        slow.release()


def test_a_table_that_is_closed_while_it_compiles_closes_afterwards(build: Any) -> None:
    backend = load_backend(build("compiler.c"))
    slow = Slow(backend)
    backend.close()
    slow.release()
    gc.collect()  # the graph that holds what was compiled
    with pytest.raises(BackendError, match="was closed"):
        backend.supports(additions().outputs[0].inputs[0].source.layer, backend.options_type(), Device())


def test_a_listener_that_uses_its_own_backend(build: Any) -> None:
    backend = load_backend(build("compiler.c"))
    layer = additions().outputs[0].inputs[0].source.layer

    def ask(*_: object) -> None:
        backend.supports(layer, backend.options_type(), Device())

    with dovetail.Runtime() as runtime, pytest.raises(BackendError, match="from inside one of its own calls") as caught:
        dovetail.load(additions(), backend, runtime=runtime, progress=ask)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_many_threads_load_and_drop(build: Any) -> None:
    """Two tables, each used from several threads: every sum is right and nothing is left over."""
    backends = [load_backend(build("compiler.c")), load_backend(build("per_layer.c"))]
    errors: list[BaseException] = []

    def work(backend: Any) -> None:
        try:
            for _ in range(10):
                with dovetail.Runtime(threads=1) as runtime, dovetail.load(additions(), backend, runtime=runtime) as net:
                    np.testing.assert_array_equal(net.run(FEEDS)["out"], np.full((2, 3), 7, np.float32))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(backend,)) for backend in backends * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == []


FORK = """
import gc, os, signal, sys, threading
import numpy as np
import dovetail
from dovetail.ground.errors import DovetailError
from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary
from dovetail.native import load_backend

signal.alarm(60)     # kills whoever hangs
ADD = ElementwiseBinary(operation=BinaryOperation("add"))

def network():
    made = dovetail.Network("sum")
    a, b, c = (made.input(name, (2, 3)) for name in "abc")
    made.output(made.add(ADD, made.add(ADD, a, b), c).output, "out")
    return made

feeds = {"a": np.ones((2, 3), np.float32), "b": np.full((2, 3), 2, np.float32), "c": np.full((2, 3), 2, np.float32)}

def check(net):
    assert (net.run(feeds)["out"] == 5).all()

def refused(call):
    try:
        call()
    except DovetailError as error:
        return error.code.name
    return "nothing"

def in_child(work):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            work()
            gc.collect()
            status = 0
        finally:
            sys.stdout.flush()
            if status:
                import traceback
                traceback.print_exc()
                os._exit(1)
        sys.exit(0)     # with the hooks that run at the end of a process
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

backend = load_backend(sys.argv[1])
"""


def forked(library: Path, script: str) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK + textwrap.dedent(script), str(library)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_table_without_a_device_survives_fork(build: Any) -> None:
    forked(
        build("per_layer.c"),
        """
        runtime = dovetail.Runtime(threads=1)
        net = dovetail.load(network(), backend, runtime=runtime)
        check(net)
        def work():
            check(net)
            with dovetail.load(network(), backend, runtime=runtime) as another:
                check(another)
        in_child(work)
        check(net)
        """,
    )


def test_a_device_is_the_parents(build: Any) -> None:
    """The child is refused what it inherited, may reopen the device, ends nothing of its parent."""
    forked(
        build("device.c", "device", "-pthread"),
        """
        import ctypes
        library = ctypes.CDLL(sys.argv[1])
        things = range(6)
        runtime = dovetail.Runtime(threads=1)
        net = dovetail.load(network(), backend, runtime=runtime)
        check(net)
        def work():
            before = [library.count_alive(i) for i in things]
            assert refused(lambda: net.run(feeds)) == "FORKED"
            assert refused(lambda: dovetail.load(network(), backend, runtime=runtime).run(feeds)) == "FORKED"
            with dovetail.Runtime(threads=1) as own, dovetail.load(network(), backend, runtime=own) as another:
                check(another)
            net.unload()
            runtime.close()
            backend.close()
            gc.collect()
            after = [library.count_alive(i) for i in things]
            assert after[:3] == before[:3] and after[5] == before[5], (before, after)
        in_child(work)
        check(net)
        net.unload()
        runtime.close()
        del net
        gc.collect()
        assert [library.count_alive(i) for i in things] == [0, 0, 0, 0, 0, 1]
        """,
    )


def test_memory_without_queues_is_the_parents_too(build: Any) -> None:
    forked(
        build("device.c", "synchronous", "-pthread", "-DSYNCHRONOUS"),
        """
        runtime = dovetail.Runtime(threads=1)
        net = dovetail.load(network(), backend, runtime=runtime)
        check(net)
        def work():
            assert refused(lambda: net.run(feeds)) == "FORKED"
        in_child(work)
        check(net)
        """,
    )


def test_fork_in_the_middle_of_a_call(build: Any) -> None:
    """The lock is held by a thread that the child does not have."""
    forked(
        build("compiler.c"),
        """
        inside, free = threading.Event(), threading.Event()
        def hold(*_):
            inside.set()
            free.wait()
        def load():
            dovetail.load(network(), backend, progress=hold).unload()
        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        inside.wait()
        def work():
            try:
                dovetail.load(network(), backend, runtime=dovetail.Runtime(threads=1))
            except DovetailError as error:
                assert "[FORKED]" in error.message, error.message
            else:
                raise AssertionError("it was taken")
        in_child(work)
        free.set()
        thread.join()
        with dovetail.load(network(), backend) as net:
            check(net)
        """,
    )
