"""The example server, run as its page says and asked by many clients at once."""

import asyncio
import contextlib
import io
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from server_modules import WHY, module_of_server

import dovetail

httpx = pytest.importorskip("httpx", reason=WHY)
pytest.importorskip("fastapi", reason=WHY)
pytest.importorskip("uvicorn", reason=WHY)
Image = pytest.importorskip("PIL.Image", reason=WHY)

CLIENTS = 16
NPY, NPZ = "application/x-npy", "application/x-npz"
BACKENDS = ["CpuAcc", "CpuRef"]
RANDOM = np.random.default_rng(11)


@contextlib.contextmanager
def serving(root, *arguments):
    """Run the server on a free port; yield its address. It must end well, and say nothing bad."""
    command = [sys.executable, str(root / "examples" / "server" / "run.py"), "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    told = []
    try:
        for line in process.stderr:
            told.append(line)
            found = re.search(r"running on (http://[\d.]+:\d+)", line)
            if found:
                break
        else:
            pytest.fail(f"the server did not begin: {''.join(told)}")
        reader = threading.Thread(target=lambda: told.extend(process.stderr))
        reader.start()
        yield found.group(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)  # uvicorn hands the signal on once it is done
        reader.join()
        assert not re.search("Traceback|ERROR|WARNING", text := "".join(told)), text
        assert "shutdown complete" in text
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def digits(root):
    return root / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def server(root, digits):
    backends = itertools.chain.from_iterable(("--backend", one) for one in BACKENDS)
    with serving(root, "--model", f"digits={digits}", *backends, "--largest-body", 1 << 20) as address:
        yield address


@pytest.fixture(scope="module")
def images(root):
    with np.load(root / "examples" / "digits" / "samples.npz") as samples:
        return samples["image"]


def packed(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def post(client, address, body, kind=NPY, accept=NPY, query=""):
    return client.post(f"{address}/run{query}", content=body, headers={"Content-Type": kind, "Accept": accept})


def test_sixteen_clients_get_what_a_direct_run_gives(server, digits, images):
    with dovetail.load(digits, BACKENDS, threads=1) as net:
        batches = [images[:size] for size in (1, 2, 3, 7, 40)]
        expected = [net.run({"image": batch})["probabilities"] for batch in batches]

    def ask(number):
        with httpx.Client(timeout=60) as client:
            for turn in range(40):
                which = (number + turn) % len(batches)
                reply = post(client, f"{server}/models/digits", packed(batches[which]))
                assert reply.status_code == 200, reply.text
                np.testing.assert_array_equal(np.load(io.BytesIO(reply.content)), expected[which])
        return 40

    with ThreadPoolExecutor(CLIENTS) as clients:
        assert sum(clients.map(ask, range(CLIENTS))) == CLIENTS * 40
    metrics = httpx.get(f"{server}/metrics").text
    assert int(re.search(r'requests_total\{model="digits",status="200"\} (\d+)', metrics).group(1)) >= CLIENTS * 40
    assert "dovetail_requests_in_flight 0\n" in metrics


def written(path, version):
    """Write another network for each version, as a deployment does: beside, then in one step."""
    weights = np.random.default_rng(version).standard_normal((48, 32)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Softmax", ["product"], ["y"])]
    ends = [helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 48), ("y", 32))]
    graph = helper.make_graph(nodes, "versions", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    beside = path.with_suffix(".new")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), beside)
    with dovetail.load(dovetail.parse(beside.read_bytes()), BACKENDS, threads=1) as net:
        expected = net.run({"x": SENT})["y"]
    os.replace(beside, path)
    return expected


SENT = RANDOM.standard_normal((3, 48)).astype(np.float32)


@pytest.mark.slow
def test_a_reload_under_load_loses_nothing(root, tmp_path):
    model, stop, seen = tmp_path / "model.onnx", threading.Event(), []
    expected = {1: written(model, 1)}
    with serving(root, "--model", f"versions={model}", "--backend", "CpuAcc", "--backend", "CpuRef") as address:

        def ask(number):
            with httpx.Client(timeout=60) as client:
                while not stop.is_set():
                    reply = post(client, f"{address}/models/versions", packed(SENT))
                    assert reply.status_code == 200, reply.text
                    version = int(reply.headers["X-Model-Version"])
                    np.testing.assert_array_equal(np.load(io.BytesIO(reply.content)), expected[version])
                    seen.append(version)

        with ThreadPoolExecutor(CLIENTS) as clients:
            asked = [clients.submit(ask, number) for number in range(CLIENTS)]
            try:
                for version in range(2, 9):
                    time.sleep(0.2)
                    expected[version] = written(model, version)
                    reply = httpx.post(f"{address}/models/versions/reload", timeout=60)
                    assert reply.json()["version"] == version
                time.sleep(0.2)
                model.write_bytes(b"no model")
                reply = httpx.post(f"{address}/models/versions/reload", timeout=60)
                assert reply.status_code == 500
                assert reply.json()["error"]["code"] == "MODEL_MALFORMED"
                time.sleep(0.1)  # what cannot be loaded replaces nothing
            finally:
                stop.set()
            for one in asked:
                one.result()
        assert httpx.get(f"{address}/health").json() == {"status": "ready", "models": {"versions": 8}}
    assert set(seen) == set(expected)


def test_it_tells_what_it_has(server):
    assert httpx.get(f"{server}/health").json()["status"] == "ready"
    told = httpx.get(f"{server}/models").json()["digits"]
    assert told["inputs"] == [{"name": "image", "shape": ["N", 1, 8, 8], "dtype": "float32"}]
    assert httpx.get(f"{server}/models/digits").json() == told
    post(httpx, f"{server}/models/digits", packed(np.zeros((1, 1, 8, 8), np.float32)))
    placement = httpx.get(f"{server}/models/digits/placement").json()
    assert {layer["backend"] for layer in placement["layers"]} <= {"CpuAcc", "CpuRef"}
    text = httpx.get(f"{server}/models/digits/placement", headers={"Accept": "text/plain"}).text
    assert placement["summary"] in text


def test_each_kind_of_body_means_the_same(server, digits, images):
    address, image = f"{server}/models/digits", images[:1]
    with dovetail.load(digits, BACKENDS, threads=1) as net:
        expected = net.run({"image": image})["probabilities"]
    file = io.BytesIO()
    np.savez_compressed(file, image=image)
    given = json.dumps({"inputs": {"image": image.tolist()}})
    pixels = np.rint(image[0, 0] * 255).astype(np.uint8)
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "png")
    for body, kind, query in (
        (file.getvalue(), NPZ, ""),
        (given, "application/json; charset=utf-8", ""),
        (packed(image), NPY, ""),
    ):
        for accept in ("application/json", "*/*", NPZ, f"text/html, {NPY};q=0.5"):
            reply = post(httpx, address, body, kind, accept, query)
            assert reply.status_code == 200, reply.text
            if reply.headers["content-type"] == "application/json":
                found = np.array(reply.json()["outputs"]["probabilities"], np.float32)
            else:
                found = np.load(io.BytesIO(reply.content))
                found = found if isinstance(found, np.ndarray) else found["probabilities"]
            np.testing.assert_array_equal(found, expected)
    for query, values in (
        ("", pixels / np.float32(255)),
        ("?mean=127.5&scale=0.01", (pixels - np.float32(127.5)) * np.float32(0.01)),
    ):
        with dovetail.load(digits, BACKENDS, threads=1) as net:
            wanted = net.run({"image": values.astype(np.float32)[None, None]})["probabilities"]
        reply = post(httpx, address, png.getvalue(), "image/png", NPY, query)
        np.testing.assert_allclose(np.load(io.BytesIO(reply.content)), wanted, rtol=1e-5, atol=1e-7)


def header(dtype, shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def bomb():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", bytes(50 << 20))
    return file.getvalue()


def picture_of_16_bits():
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), 1000, np.uint16)).save(file, "PNG")
    return file.getvalue()


WRONG = {
    "an npy of a terabyte": (header("<f4", (1 << 38,)), NPY, 400, "NOT_READABLE"),
    "an npy of negative sizes": (header("<f4", (-1, -4)) + bytes(16), NPY, 400, "NOT_READABLE"),
    "an npy of objects": (header("|O", (1,)) + b"cos\nsystem\n(S'true'\ntR.", NPY, 400, "NOT_READABLE"),
    "an npy cut short": (packed(np.zeros((1, 1, 8, 8), np.float32))[:-1], NPY, 400, "NOT_READABLE"),
    "an npy that is all header": (
        b"\x93NUMPY\2\0" + (1 << 19).to_bytes(4, "little") + b" " * (1 << 19),
        NPY,
        400,
        "NOT_READABLE",
    ),
    "an npz that unpacks to much": (bomb(), NPZ, 413, "TOO_LARGE"),
    "an npz that is none": (b"PK\x03\x04", NPZ, 400, "NOT_READABLE"),
    "too deep JSON": ('{"inputs": {"image": ' + "[" * 200_000, "application/json", 400, "NOT_READABLE"),
    "ragged JSON": ('{"inputs": {"image": [[1], [1, 2]]}}', "application/json", 400, "NOT_READABLE"),
    "JSON without inputs": ("[]", "application/json", 400, "NOT_READABLE"),
    "a picture of 16 bits": (picture_of_16_bits(), "image/png", 400, "NOT_READABLE"),
    "no picture": (b"\x89PNG\r\n\x1a\n" + bytes(40), "image/png", 400, "NOT_READABLE"),
    "too much": (bytes((1 << 20) + 1), NPY, 413, "TOO_LARGE"),
    "an unknown type": ("x", "text/plain", 415, "TYPE_UNKNOWN"),
    "another shape": (packed(np.zeros((1, 8, 8), np.float32)), NPY, 422, "INPUT_SHAPE"),
    "another element type": (packed(np.zeros((1, 1, 8, 8), np.int64)), NPY, 422, "INPUT_DTYPE"),
    "another name": ('{"inputs": {"x": [1]}}', "application/json", 422, "INPUT_NAME"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_json(server, what):
    body, kind, status, code = WRONG[what]
    reply = post(httpx, f"{server}/models/digits", body, kind)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
    assert reply.json()["error"]["hint"]
    assert reply.json()["error"]["message"]


def test_too_much_is_refused_while_it_comes(server):
    """The length need not be stated: no more is read than is allowed."""
    pieces = (bytes(1 << 16) for _ in range(1000))
    reply = httpx.post(f"{server}/models/digits/run", content=pieces, headers={"Content-Type": NPY})
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "TOO_LARGE")


@pytest.mark.parametrize(
    ("method", "place", "status"),
    [
        ("GET", "/models/none", 404),
        ("POST", "/models/none/run", 404),
        ("GET", "/nothing", 404),
        ("GET", "/models/digits/run", 405),
    ],
)
def test_other_places_are_said_in_json(server, method, place, status):
    reply = httpx.request(method, f"{server}{place}")
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"code", "message", "hint"}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("mean=nan", "query parameter 'mean': not all of its numbers are finite"),
        ("mean=1,inf,2", "query parameter 'mean': not all of its numbers are finite"),
        ("mean=1e999", "query parameter 'mean': not all of its numbers are finite"),
        ("scale=-Infinity", "query parameter 'scale': not all of its numbers are finite"),
        ("scale=NaN", "query parameter 'scale': not all of its numbers are finite"),
        ("mean=1e39", "more than the type float32 of the input holds"),
        ("scale=1e37", "more than the type float32 of the input holds"),
        ("mean=1e30&scale=1e30", "more than the type float32 of the input holds"),
        ("mean=1e39&scale=0", "more than the type float32 of the input holds"),
    ],
)
def test_means_and_scales_that_are_no_numbers_are_refused(server, query, sentence):
    png = io.BytesIO()
    Image.new("L", (8, 8)).save(png, "png")
    reply = post(httpx, f"{server}/models/digits", png.getvalue(), "image/png", query=f"?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "NOT_READABLE")
    assert sentence in reply.json()["error"]["message"]
    assert reply.json()["error"]["hint"]


hosting = module_of_server("hosting")


class Net:
    def __init__(self):
        self.unloads = 0

    def unload(self):
        self.unloads += 1


def test_what_was_replaced_is_unloaded_after_its_last_request(hosting):
    async def scene():
        made = []

        def load(path):
            made.append(Net())
            return made[-1]

        model = hosting.Model("m", "file", load)
        with pytest.raises(hosting.Problem, match="not loaded"):
            _ = model.current
        await model.reload()
        async with model.using() as first:
            async with model.using():
                await model.reload()
                assert model.current.net is made[1]
            await asyncio.sleep(0.05)
            assert (first.net, first.net.unloads) == (made[0], 0)
        while not made[0].unloads:
            await asyncio.sleep(0.001)
        async with model.using() as second:
            closing = asyncio.create_task(model.close())
            await asyncio.sleep(0.05)
            assert not closing.done()
            assert second.net.unloads == 0
        await closing
        assert [net.unloads for net in made] == [1, 1]

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_a_failed_load_leaves_what_was_there(hosting):
    async def scene():
        nets = [Net()]
        model = hosting.Model("m", "file", lambda path: nets.pop())
        before = await model.reload()
        with pytest.raises(IndexError):
            await model.reload()
        assert model.current is before
        assert before.net.unloads == 0
        await model.close()
        assert before.net.unloads == 1

    asyncio.run(asyncio.wait_for(scene(), 30))


def test_what_is_beyond_the_server_s_means_is_told_to_come_back(root, digits):
    with serving(root, "--model", f"digits={digits}", "--most-waiting", 1) as address:
        begun, go_on = threading.Event(), threading.Event()

        def slowly():
            yield b"\x93NUMPY"
            begun.set()
            go_on.wait(20)

        with ThreadPoolExecutor(1) as other:
            first = other.submit(httpx.post, f"{address}/models/digits/run", content=slowly(), headers={"Content-Type": NPY})
            assert begun.wait(20)
            deadline = time.monotonic() + 20
            while "in_flight 1" not in httpx.get(f"{address}/metrics").text:
                assert time.monotonic() < deadline
            second = post(httpx, f"{address}/models/digits", packed(np.zeros((1, 1, 8, 8), np.float32)))
            go_on.set()
            assert first.result().status_code == 400
        assert (second.status_code, second.json()["error"]["code"]) == (503, "BUSY")
        assert second.headers["retry-after"] == "1"
        assert post(httpx, f"{address}/models/digits", packed(np.zeros((1, 1, 8, 8), np.float32))).status_code == 200


@pytest.mark.parametrize("pause", [0.05, 60], ids=["drop by drop", "not at all"])
def test_a_body_that_does_not_come_is_not_waited_for(root, digits, pause):
    body = packed(np.zeros((1, 1, 8, 8), np.float32))
    head = f"POST /models/digits/run HTTP/1.1\r\nHost: x\r\nContent-Type: {NPY}\r\nContent-Length: {len(body)}\r\n\r\n"
    with serving(root, "--model", f"digits={digits}", "--body-seconds", 1) as address:
        place = httpx.URL(address)
        with socket.create_connection((place.host, place.port), timeout=20) as slow:
            begin = time.monotonic()
            slow.sendall(head.encode())
            stop = threading.Event()

            def dribble():
                for byte in body[:-1]:
                    if stop.wait(pause):
                        return
                    with contextlib.suppress(OSError):  # it was hung up on
                        slow.sendall(bytes([byte]))

            with ThreadPoolExecutor(1) as other:
                other.submit(dribble)
                try:
                    assert post(httpx, f"{address}/models/digits", body).status_code == 200  # nobody else waits
                    answer = b"".join(iter(lambda: received(slow), b""))  # to the end: the server hangs up
                finally:
                    stop.set()
            assert 0.9 < time.monotonic() - begin < 10
        status, _, error = answer.partition(b"\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 408")
        assert json.loads(error)["error"]["code"] == "TOO_SLOW"
        assert "dovetail_requests_in_flight 0\n" in httpx.get(f"{address}/metrics").text


def test_a_client_that_leaves_is_no_failure_of_the_server(root, digits):
    head = f"POST /models/digits/run HTTP/1.1\r\nHost: x\r\nContent-Type: {NPY}\r\nContent-Length: 1000\r\n\r\n"
    with serving(root, "--model", f"digits={digits}") as address:  # which says nothing of it in its log
        place = httpx.URL(address)
        with socket.create_connection((place.host, place.port), timeout=20) as leaving:
            leaving.sendall(head.encode() + b"\x93NUMPY")
        deadline, counted = time.monotonic() + 20, ""
        while "requests_total{" not in counted:
            counted = httpx.get(f"{address}/metrics").text
            assert time.monotonic() < deadline
        assert 'requests_total{model="digits",status="400"} 1\n' in counted


def received(connection):
    """Return what comes next, nothing at the end; a reset is an end, too."""
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""


@pytest.mark.slow
def test_the_benchmark_compares_two_servers(root):
    pytest.importorskip("onnxruntime", reason="the benchmark compares with it; see [bench] in pyproject.toml")
    options = ("--rounds", "1", "--seconds", "0.3", "--clients", "3")
    command = [sys.executable, str(root / "benchmarks" / "serving.py"), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(dovetail|onnxruntime|onnxruntime-inline|onnxruntime-default) +([\d.]+)", done.stdout, re.MULTILINE)
    assert len(rows) == 8  # one of speed and one of memory each
    assert all(float(number) > 0 for _, number in rows)
