"""Weights stay in their file until they are asked for; those of a large file are freed singly."""

from __future__ import annotations

import os
import pickle
import random
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_metadata import LABELS, archive, named
from test_metadata import model_of as model_with_labels
from tflite_making import Model

import dovetail
from dovetail import Constant, ErrorCode, LimitError, Limits, ModelError, Network
from dovetail.ground.limits import limited
from dovetail_tflite import late_pages, model_file, parse, parser, tensors

RNG = np.random.default_rng(12)
X = RNG.random((2, 64), np.float32)
WEIGHTS = {"w": RNG.random((96, 64), np.float32), "v": RNG.random((32, 96), np.float32), "c": RNG.random(32, np.float32)}
SIZE = 1 << 14
"""Rows and columns of a GiB of float32."""


def two_products() -> Model:
    model = Model("late")
    graph = model.main
    x = graph.input("x", np.float32, (2, 64))
    w, v, c = (graph.constant(name, value) for name, value in WEIGHTS.items())
    h, y = graph.tensor("h", np.float32, (2, 96)), graph.tensor("y", np.float32, (2, 32))
    graph.operator("FULLY_CONNECTED", [x, w, -1], [h], {})
    graph.operator("FULLY_CONNECTED", [h, v, c], [graph.output(y)], {})
    return model


def wanted() -> Any:
    return (X @ WEIGHTS["w"].T) @ WEIGHTS["v"].T + WEIGHTS["c"]


def inside(folder: Path) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(two_products().build())
    return path


def behind(folder: Path) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(two_products().build_with_buffers_behind())
    return path


Saver = Callable[[Path], Path]
saved = pytest.mark.parametrize("save", [inside, behind])


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for a large one, and every weight that may wait for a large one."""
    monkeypatch.setattr(model_file, "_READ_AT_ONCE", 0)
    monkeypatch.setattr(tensors, "_OF_ITS_OWN", 1 << 12)


def huge(folder: Path, kind: str = "float32", weights: int = 1) -> Path:
    """A file of GiBs that takes no room: what nobody wrote to a file reads as zeros."""
    model = Model("huge")
    graph = model.main
    slot = graph.input("x", np.float32, (1, SIZE), signature=(-1, SIZE))
    nbytes = SIZE * SIZE * {"float32": 4, "float16": 2, "int8": 1, "int4": 0.5}[kind]
    begin = 1 << 16
    for number in range(weights):
        scheme = {"quantization": (0.1, 0)} if kind.startswith("int") else {}
        weight = graph.tensor(f"w{number}", kind, (SIZE, SIZE), buffer=len(model.tree["buffers"]), **scheme)
        model.tree["buffers"].append({"offset": begin, "size": int(nbytes)})
        begin += int(nbytes)
        if kind == "float16":  # as a converter writes it
            weight, half = graph.tensor(f"f{number}", np.float32, (SIZE, SIZE)), weight
            graph.operator("DEQUANTIZE", [half], [weight])
        made = graph.tensor(f"y{number}", np.float32, (1, SIZE), signature=(-1, SIZE))
        graph.operator("FULLY_CONNECTED", [slot, weight, -1], [made], {})
        slot = made
    graph.output(slot)
    path = folder / "model.tflite"
    with path.open("wb") as file:
        assert file.write(model.build()) <= 1 << 16
        file.truncate(begin)
    return path


def constants(network: Network) -> dict[str, Constant]:
    return {layer.name: layer.descriptor for layer in network if isinstance(layer.descriptor, Constant)}


def names_of_read(found: dict[str, Constant]) -> set[str]:
    return {name for name, one in found.items() if one.unread is None}


def compare(one: Network, other: Network) -> None:
    """Layer by layer, to the last bit of the constants."""
    assert str(one) == str(other)
    assert one.metadata == other.metadata
    assert one.meanings == other.meanings
    first, second = constants(one), constants(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.infer([]) == second[name].infer([])
        assert value.value.tobytes() == second[name].value.tobytes()
        assert not value.value.flags.writeable
        assert value.value.flags.aligned


# -- weights that wait -----------------------------------------------------------------------------


@saved
def test_values_are_those_of_the_file(tmp_path: Path, save: Saver) -> None:
    path = save(tmp_path)
    early, late = dovetail.parse(path), dovetail.parse(path, late_weights=True)
    assert names_of_read(constants(early)) == {"w", "v", "c"}
    found = constants(late)
    assert names_of_read(found) == {"c"}
    assert found["w"].nbytes == WEIGHTS["w"].nbytes
    compare(early, late)
    assert found["w"].value is found["w"].value


@saved
def test_a_network_whose_weights_wait_loads_as_any_other(tmp_path: Path, save: Saver) -> None:
    pytest.importorskip("dovetail_reference", reason="what is loaded here needs a backend")
    network = dovetail.parse(save(tmp_path), late_weights=True)
    for one in (network, pickle.loads(pickle.dumps(dovetail.parse(tmp_path / "model.tflite", late_weights=True)))):
        with dovetail.load(one, "CpuRef") as net:
            np.testing.assert_allclose(net.run({"x": X})["y"], wanted(), rtol=1e-5)


@pytest.mark.parametrize("kind", ["float16", "int8", "int64", "bool", "int4", "uint4", "int2", "bfloat16"])
@pytest.mark.parametrize("shape", [(5, 8191), (3, 12345, 1)], ids=str)
def test_element_types(tmp_path: Path, kind: str, shape: tuple[int, ...], apart: None) -> None:
    model = Model()
    nbytes = -(-int(np.prod(shape)) * {"int4": 4, "uint4": 4, "int2": 2, "int64": 64}.get(kind, 16) // 8)
    scheme = {} if kind in ("float16", "int64", "bool", "bfloat16") else {"quantization": (0.5, 1)}
    model.main.output(model.main.tensor("t", kind, shape, value=RNG.bytes(nbytes), **scheme))
    path = tmp_path / "model.tflite"
    path.write_bytes(model.build())
    late = dovetail.parse(path, late_weights=True)
    assert not names_of_read(constants(late))
    compare(parse(path.read_bytes()), late)
    compare(parse(path.read_bytes()), dovetail.parse(path))


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int4"])
def test_showing_a_network_reads_no_weights(tmp_path: Path, kind: str) -> None:
    from dovetail_sdk.summary import summarize, with_known_shapes, with_sizes_of_one

    path = huge(tmp_path, kind)
    tracemalloc.start()
    try:
        network = dovetail.parse(path, late_weights=True, limits=Limits(memory=1 << 20))
        graph, reason = with_known_shapes(network, {})
        summary = summarize(graph, reason, *with_sizes_of_one(network, {}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 22
    assert SIZE * SIZE <= summary.parameters < SIZE * SIZE + 10
    assert "w0" not in names_of_read(constants(network))
    assert "w0" not in {layer.name for layer in summary.layers}


def test_the_command_reads_no_weights(tmp_path: Path) -> None:
    path = huge(tmp_path, weights=5)
    assert path.stat().st_size > 5 << 30
    program = (
        "import sys; from click.testing import CliRunner; from dovetail_sdk.cli import main;"
        "done = CliRunner().invoke(main, ['show', sys.argv[1]]); print(done.output);"
        # Not ru_maxrss: that begins with what the process had that started this one.
        "most = next(line for line in open('/proc/self/status') if line.startswith('VmHWM'));"
        "print(done.exit_code, most.split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    code, kibibytes = map(int, done.stdout.splitlines()[-1].split())
    assert code == 0, done.stdout
    assert kibibytes < 200 << 10
    assert "5.0 GiB" in done.stdout


@saved
@pytest.mark.parametrize("harm", ["removed", "cut", "written", "replaced"])
def test_a_file_that_changed_is_not_read(tmp_path: Path, save: Saver, harm: str) -> None:
    path = save(tmp_path)
    found = constants(dovetail.parse(path, late_weights=True))
    first = found["v"].value.copy()
    content = path.read_bytes()
    if harm == "removed":
        path.unlink()
    elif harm == "cut":
        os.truncate(path, len(content) // 2)
    elif harm == "written":
        path.write_bytes(bytes(len(content)))
        os.utime(path, ns=(1, 1))  # whatever the grain of the clock
    else:
        (tmp_path / "new").write_bytes(bytes(len(content)))
        (tmp_path / "new").replace(path)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"'.*model.tflite' was removed or changed before tensor 'w' was read") as caught:
            _ = found["w"].value
        assert caught.value.code is ErrorCode.MODEL_NOT_FOUND
    np.testing.assert_array_equal(found["v"].value, first)


def test_what_is_read_later_counts_then(tmp_path: Path) -> None:
    path = inside(tmp_path)
    network = dovetail.parse(path, limits=Limits(memory=WEIGHTS["w"].nbytes), late_weights=True)
    with pytest.raises(LimitError):
        dovetail.load(network, limits=Limits(memory=WEIGHTS["w"].nbytes))


def test_a_relative_path_stays_that_of_the_folder_it_was_read_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(tmp_path)
    monkeypatch.chdir(tmp_path)
    network = dovetail.parse("model.tflite", late_weights=True)
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(constants(network)["v"].value, WEIGHTS["v"])


# -- files that are read page by page --------------------------------------------------------------


@saved
@pytest.mark.parametrize("is_apart", [False, True])
def test_a_limit_of_memory_is_what_is_counted_to_the_byte(
    tmp_path: Path, save: Saver, request: pytest.FixtureRequest, *, is_apart: bool
) -> None:
    """Just above a file's size too little is refused for a reason, and enough is enough."""
    if is_apart:
        request.getfixturevalue("apart")
    path = save(tmp_path)
    nbytes = path.stat().st_size
    with limited(Limits()) as load:
        dovetail.parse(path)
        enough = max(load.memory, nbytes)
    assert nbytes <= enough <= nbytes + 4096 * (1 + 2 * len(WEIGHTS))
    said = set()
    for memory in range(nbytes - 100, enough + 4096 * 4, 97):
        if memory >= enough:
            dovetail.parse(path, limits=Limits(memory=memory))
            continue
        with pytest.raises(LimitError) as caught:
            dovetail.parse(path, limits=Limits(memory=memory))
        (reason,) = re.findall(
            r"the file '|what lies around the large tensors|tensor '\w'|what the file says", str(caught.value)
        )
        said.add(reason)
        assert caught.value.details["allowed"] == memory
    dovetail.parse(path, limits=Limits(memory=enough))
    with pytest.raises(LimitError):
        dovetail.parse(path, limits=Limits(memory=enough - 1))
    assert "the file '" in said


def test_pages_that_are_too_many_are_told_of(tmp_path: Path, apart: None) -> None:
    path = inside(tmp_path)
    with pytest.raises(
        LimitError, match=r"tensor '\w', besides pages of 4096 bytes around such tensors, needs \d+ bytes, \d+ are"
    ):
        dovetail.parse(path, limits=Limits(memory=path.stat().st_size + 1))
    with limited(Limits(memory=5000)), path.open("rb", buffering=0) as file:
        pages = late_pages.LatePages(str(path), file)
        pages.need(10, 11)
        with pytest.raises(
            LimitError, match=r"what lies around the large tensors of '.*', read in pages of 4096 bytes, needs 4096"
        ):
            pages.need(4095, 4097)


def test_names_of_classes_are_found_behind_the_model(tmp_path: Path, apart: None) -> None:
    content = model_with_labels({}, named()) + archive(labels=LABELS)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    expected = parse(content)
    assert any(meaning.labels for meaning in expected.meanings.values())
    compare(expected, dovetail.parse(path))
    compare(expected, dovetail.parse(path, late_weights=True))


@pytest.mark.parametrize("how", ["cut", "written"])
@pytest.mark.parametrize("waits", [False, True])
@saved
def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: None, save: Saver, how: str, waits: bool
) -> None:
    """It is an error, not the end of the process, as it would be for one that is mapped."""
    path = save(tmp_path)
    translate = parser.translate

    def harmed(*given: Any) -> Network:
        size = path.stat().st_size
        if how == "cut":
            os.truncate(path, 16)
        else:
            path.write_bytes(bytes(size))
            os.utime(path, ns=(1, 1))
        return translate(*given)

    monkeypatch.setattr(parser, "translate", harmed)
    with pytest.raises(ModelError, match="was changed while it was read") as caught:
        dovetail.parse(path, late_weights=waits)
    assert caught.value.hint


def test_a_file_is_closed_whatever_becomes_of_it(tmp_path: Path, apart: None) -> None:
    before = os.listdir("/proc/self/fd")
    content = two_products().build()
    path = tmp_path / "model.tflite"
    for kept in (content, content[:-20], content[:9], content[:4], b"", b"\0" * 4096, content[:8] + b"\xff" * 9000):
        path.write_bytes(kept)
        for waits in (False, True):
            try:
                dovetail.parse(path, late_weights=waits)
            except ModelError:
                assert kept != content
    assert os.listdir("/proc/self/fd") == before


def test_weights_of_a_large_file_are_freed_singly(tmp_path: Path, apart: None) -> None:
    model = two_products()
    twin = model.main.tensor("twin", np.float32, (96, 64), buffer=model.main.tree["tensors"][1]["buffer"])
    model.main.output(twin)
    path = tmp_path / "model.tflite"
    path.write_bytes(model.build())
    network = dovetail.parse(path)
    found = constants(network)
    bases = {}
    for name in ("w", "v", "twin/Constant"):
        base: Any = found[name].value
        while base.base is not None:
            base = base.base
        bases[name] = base
        assert base.nbytes == found[name].value.nbytes
    assert bases["w"] is bases["twin/Constant"]
    assert bases["w"] is not bases["v"]


def test_buffers_that_overlap_are_not_read_over_and_over(tmp_path: Path, apart: None) -> None:
    """A file of some hundred KiB may hold a thousand buffers of nearly as many, nested."""
    model, size, count = Model(), 1 << 17, 1000
    for number in range(count):
        nbytes = size - 16 * number
        model.main.output(model.main.tensor(f"t{number}", np.uint8, (nbytes,), buffer=number + 1))
        model.tree["buffers"].append({"offset": 1 << 18, "size": nbytes})
    content = model.build().ljust(1 << 18, b"\0") + RNG.bytes(size)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    network = dovetail.parse(path, limits=Limits(memory=4 * len(content)))
    for number in (0, 1, 500, 999):
        assert constants(network)[f"t{number}/Constant"].value.tobytes() == content[1 << 18 :][: size - 16 * number]


def _outcome(read: Callable[[], Network]) -> Any:
    try:
        network = read()
        return str(network), {name: one.value.tobytes() for name, one in constants(network).items()}
    except ModelError as error:
        return error.code, error.message.partition(" is ")[2]


@pytest.mark.parametrize("seed", range(150))
def test_broken_files_mean_the_same_however_they_are_read(tmp_path: Path, apart: None, seed: int) -> None:
    """Whatever leads into weights, or out of the file: nobody sees bytes that are not there yet."""
    luck = random.Random(seed)
    content = bytearray(two_products().build_with_buffers_behind() if seed % 2 else two_products().build())
    tables = [at for at in range(len(content)) if seed % 2 == 0 or at < 2000]
    interesting = [at for at in tables if at < 2000 or at > len(content) - 2000]
    for _ in range(luck.randint(1, 4)):
        at = luck.choice(interesting) & ~3
        value = luck.choice([luck.randrange(1 << 32), luck.randrange(len(content)), luck.randrange(256), 0])
        content[at : at + 4] = value.to_bytes(4, "little")
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    expected = _outcome(lambda: parse(bytes(content)))
    assert _outcome(lambda: parse(path)) == expected
    late = _outcome(lambda: dovetail.parse(path, late_weights=True))
    assert late == expected


def test_pages_that_are_there_are_those_that_were_needed(tmp_path: Path) -> None:
    content = RNG.bytes(5 * 4096 + 100)
    path = tmp_path / "file"
    path.write_bytes(content)
    for seed in range(50):
        luck = random.Random(seed)
        pages = late_pages.LatePages(str(path), path.open("rb", buffering=0))  # type: ignore[arg-type]
        needed: set[int] = set()
        for _ in range(luck.randint(1, 6)):
            begin = luck.randrange(len(content))
            end = luck.randint(begin + 1, len(content))
            pages.need(begin, end)
            assert pages.data[begin:end].tobytes() == content[begin:end]
            needed |= set(range(begin >> 12, ((end - 1) >> 12) + 1))
        for page in range(6):
            there = content[page << 12 : (page + 1) << 12]
            assert pages.data[page << 12 : (page + 1) << 12].tobytes() == (there if page in needed else bytes(len(there)))
        pages.close()
