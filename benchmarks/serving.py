"""Measure a server with many clients beside the same one on onnxruntime.

    python3 dev.py bench serving [MODEL.onnx ...] [--clients 16] [--rounds 7] [--seconds 2]

The application is `examples/server`, with the runtime as the only difference: one process each, on
one port each. Clients keep their connection and send the next request once they have their answer;
they are this process, so that a server pays for no client. Runtimes alternate in blocks of some
seconds, in rotating order, and the ratio is taken within each round. A block during which other
processes took CPU time is repeated, `--repeats` times at most; how many stayed disturbed is told at
the end. Answers are compared first.

`onnxruntime` has as many threads for a run as dovetail has (`--threads`), `onnxruntime-default` as
many as it takes by itself. Both are called on as many threads at once as dovetail's `run_async`,
which decides by itself where a run is carried out. `onnxruntime-inline` is called by the event
loop's own thread, which is best for the smallest networks, and holds up all else for larger ones.
"CPU" is what a request costs the server's process on all cores: on a machine that others use too,
it says more than answers per second do. Behind a ratio stand its min and max of
all rounds. Memory is that of the whole process (VmRSS) after all rounds; most of it is Python and
FastAPI, which `bare` shows: a server of no model.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
RUNTIMES = ("dovetail", "onnxruntime", "onnxruntime-inline", "onnxruntime-default")
NPY, NPZ = "application/x-npy", "application/x-npz"


class Spec(NamedTuple):
    """An input or output, as the server asks for it."""

    name: str
    shape: tuple[int | str, ...]
    dtype: Any


class OnnxRuntimeNetwork:
    """A session of onnxruntime in the clothes of a loaded network.

    Args:
        path: Of the model.
        threads: For one run; 0 for its own default.
        inline: Run on the event loop's thread.
    """

    def __init__(self, path: str, threads: int, inline: bool) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._pool = None if inline else ThreadPoolExecutor(max(4, 2 * (os.cpu_count() or 1)))
        self.inputs, self.outputs = (
            [Spec(one.name, tuple(one.shape), one.type) for one in ends]
            for ends in (self._session.get_inputs(), self._session.get_outputs())
        )

    async def run_async(self, feeds: dict[str, np.ndarray], timeout: float | None = None) -> dict[str, np.ndarray]:
        """Run on a thread, or on this one."""
        names = [spec.name for spec in self.outputs]
        if self._pool is None:
            found = self._session.run(names, feeds)
        else:
            found = await asyncio.get_running_loop().run_in_executor(self._pool, self._session.run, names, feeds)
        return dict(zip(names, found, strict=True))

    def unload(self) -> None:
        """Let go of the session."""
        if self._pool is not None:
            self._pool.shutdown()
        del self._session


def loader(runtime: str, threads: int) -> Any:
    """Return what loads a model."""
    if runtime.startswith("onnxruntime"):
        return partial(OnnxRuntimeNetwork, threads=0 if runtime.endswith("default") else threads, inline="inline" in runtime)
    import dovetail

    return partial(dovetail.load, threads=threads)


def serve(runtime: str, models: list[str], threads: int) -> None:
    """Be the server."""
    sys.path.insert(0, str(ROOT / "examples" / "server"))
    import uvicorn
    from app import create_app

    files = {str(number): path for number, path in enumerate(models)}
    uvicorn.run(create_app(files, loader(runtime, threads)), port=0, access_log=False, ws="none")


class Server(NamedTuple):
    """A server that runs.

    Attributes:
        runtime: What it computes on.
        port: On this machine.
        pid: Of its process.
    """

    runtime: str
    port: int
    pid: int

    @property
    def cpu_seconds(self) -> float:
        """CPU time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def resident(self) -> float:
        """MiB that it holds."""
        status = Path(f"/proc/{self.pid}/status").read_text("utf-8")
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]  # each process has it


@contextmanager
def serving(runtime: str, models: list[str], threads: int) -> Iterator[Server]:
    """Start a server, and end it."""
    command = [sys.executable, __file__, "--serve", runtime, "--threads", str(threads), *models]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = []
    try:
        for line in process.stderr:
            told.append(line)
            found = re.search(r"running on http://[\d.]+:(\d+)", line)
            if found:
                yield Server(runtime, int(found[1]), process.pid)
                return
        raise SystemExit(f"the server on {runtime} did not begin:\n{''.join(told)}")
    finally:
        process.terminate()
        process.communicate()


class Client:
    """A connection that asks one thing.

    Args:
        server: Whom.
        model: The number of the model.
        body: What is sent: a .npz, or a .npy.
    """

    def __init__(self, server: Server, model: int, body: bytes) -> None:
        self._port = server.port
        kind = NPZ if body.startswith(b"PK") else NPY
        head = f"POST /models/{model}/run HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nAccept: {NPY}, {NPZ}\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def ask(self, until: float, times: list[float]) -> bytes:
        """Ask until a time; return the last answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 24)
        answer = b""
        while not answer or time.perf_counter() < until:
            begin = time.perf_counter()
            writer.write(self._request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            answer = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
            times.append(time.perf_counter() - begin)
            if not head.startswith(b"http/1.1 200"):
                raise SystemExit(f"the server answered {head.decode()}{answer[:500].decode(errors='replace')}")
        writer.close()
        await writer.wait_closed()
        return answer


def block(client: Client, clients: int, seconds: float) -> tuple[float, list[float], bytes]:
    """Let so many clients ask for some seconds.

    Returns:
        Answers a second, how long each took, and one of them.
    """

    async def all_of_them() -> list[bytes]:
        until = time.perf_counter() + seconds
        return await asyncio.gather(*(client.ask(until, times) for _ in range(clients)))

    times: list[float] = []
    begin = time.perf_counter()
    answers = asyncio.run(all_of_them())
    return len(times) / (time.perf_counter() - begin), times, answers[0]


class Block(NamedTuple):
    """What some seconds of one server were.

    Attributes:
        rate: Answers a second.
        times: Of each answer, in seconds.
        cpu_seconds: Of the server, for one answer.
        is_disturbed: Whether other processes took CPU time meanwhile.
    """

    rate: float
    times: list[float]
    cpu_seconds: float
    is_disturbed: bool


def quiet_block(server: Server, client: Client, given: argparse.Namespace) -> Block:
    """Measure a server for some seconds, again where others took CPU time."""
    from dovetail_sdk.tuning.interference import busy_now, is_disturbed  # not by the servers, whose memory is measured

    for _ in range(given.repeats + 1):
        begin, busy, before, own = time.perf_counter(), busy_now(), server.cpu_seconds, time.process_time()
        rate, times, _ = block(client, given.clients, given.seconds)
        taken, after = time.perf_counter() - begin, busy_now()
        cost = server.cpu_seconds - before
        others = 0.0 if busy is None or after is None else after - busy - cost - (time.process_time() - own)
        found = Block(rate, times, cost / len(times), is_disturbed(others / taken, threads=2))
        if not found.is_disturbed:
            break
    return found


def request_for(path: str) -> bytes:
    """Return random inputs of a model; open sizes are 1."""
    import dovetail

    random, file, feeds = np.random.default_rng(0), io.BytesIO(), {}
    for layer in dovetail.parse(path).inputs:
        info = layer.output.known_info
        shape = [size if isinstance(size, int) else 1 for size in info.shape]
        is_float = info.dtype.is_float
        values = random.standard_normal(shape) if is_float else random.integers(0, 2, shape)
        feeds[layer.name] = values.astype(info.dtype.numpy)
    if len(feeds) == 1:
        np.save(file, next(iter(feeds.values())))
    else:
        np.savez(file, **feeds)
    return file.getvalue()


def compare(servers: list[Server], number: int, path: str, given: argparse.Namespace) -> None:
    """Measure one model on all servers, and print a table."""
    body = request_for(path)
    clients = {server.runtime: Client(server, number, body) for server in servers}
    answers = {}
    for name, client in clients.items():
        _, _, answer = block(client, given.clients, 0.5)  # which warms up, too
        found = np.load(io.BytesIO(answer))
        answers[name] = {"": found} if isinstance(found, np.ndarray) else dict(found)
    for name, arrays in answers.items():
        for output, array in arrays.items():
            wanted = answers[servers[-1].runtime][output]
            scale = max(float(np.abs(wanted).max()), 1e-6)
            if not np.allclose(array, wanted, rtol=0, atol=given.tolerance * scale):
                raise SystemExit(f"{path}: output {output!r} of {name} is not that of {servers[-1].runtime}")
    measured: dict[str, list[Block]] = {name: [] for name in clients}
    by_name = {server.runtime: server for server in servers}
    names = list(clients)
    for turn in range(given.rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            measured[name].append(quiet_block(by_name[name], clients[name], given))
    disturbed = sum(one.is_disturbed for blocks in measured.values() for one in blocks)
    print(f"\n{Path(path).name}, {given.clients} clients, {len(body) / 1024:.0f} KiB a request", end="; ")
    print(f"others took CPU time in {disturbed} of {given.rounds * len(names)} blocks\n")
    print(f"{'runtime':20} {'answers/s':>10} {'dovetail /':>22} {'CPU':>8} {'/ dovetail':>22} {'median':>9} {'99 %':>9}")
    for name in names:
        pairs = list(zip(measured["dovetail"], measured[name], strict=True))
        rates = spread([ours.rate / theirs.rate for ours, theirs in pairs])
        costs = spread([theirs.cpu_seconds / ours.cpu_seconds for ours, theirs in pairs])
        rate = statistics.median(one.rate for one in measured[name])
        cpu = statistics.median(one.cpu_seconds for one in measured[name]) * 1e3
        median, late = np.quantile([time for one in measured[name] for time in one.times], [0.5, 0.99]) * 1e3
        print(f"{name:20} {rate:10.1f} {rates:>22} {cpu:5.2f} ms {costs:>22} {median:6.1f} ms {late:6.1f} ms")


def spread(ratios: list[float]) -> str:
    """Return median, min and max in words."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    """Measure, or be one of the servers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="ONNX files; default the demo's")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a block")
    parser.add_argument("--repeats", type=int, default=0, help="of a block during which other processes took CPU time")
    parser.add_argument("--threads", type=int, default=1, help="that one run uses")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="between answers, relative to the largest value")
    parser.add_argument("--serve", choices=RUNTIMES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.models, given.threads)
        return
    given.models = given.models or [str(DIGITS)]
    with ExitStack() as running:
        with serving("dovetail", [], 1) as bare:
            empty = bare.resident
        servers = [running.enter_context(serving(name, given.models, given.threads)) for name in RUNTIMES]
        for number, path in enumerate(given.models):
            compare(servers, number, path, given)
        held = {server.runtime: server.resident for server in servers}
        print(f"\nmemory with {len(given.models)} model{'s' if len(given.models) > 1 else ''}; bare {empty:.0f} MiB\n")
        print(f"{'runtime':20} {'process':>9} {'dovetail /':>11} {'without bare':>13} {'dovetail /':>11}")
        for name, mib in held.items():
            ratios = held["dovetail"] / mib, (held["dovetail"] - empty) / (mib - empty)
            print(f"{name:20} {mib:5.0f} MiB {ratios[0]:11.2f} {mib - empty:9.0f} MiB {ratios[1]:11.2f}")


if __name__ == "__main__":
    main()
