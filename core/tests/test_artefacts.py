"""Test the store of artefacts: keys, damage, foreign hands, full disks, processes, refusals."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dovetail.contract.artefacts import ArtefactStore, device_facts, folder_of, option_facts
from dovetail.contract.device import Device
from dovetail.contract.part_facts import part_digests
from dovetail.contract.part_facts import text as text_of
from dovetail.contract.subgraph import SubgraphView
from dovetail.graph.tensor import Quantization
from dovetail.layers.network import Network

FACTS = {"version": "1.0", "files": "ab" * 32, "device": "NPU", "driver": "535.1", "threads": "4", "option precision": "high"}


def network(factor: Any = 2.0, *, shape: tuple[int, ...] = (2, 3), kind: str = "exp", scale: float | None = None) -> Network:
    made = Network("parts")
    x = made.input("x", shape, "float32", None if scale is None else Quantization((scale,)))
    product = made.binary(x, np.asarray(factor, np.float32), "mul")
    made.output(made.unary(product, kind), "y")
    return made


def part(made: Network | None = None) -> SubgraphView:
    whole = made or network()
    return SubgraphView(
        whole, [one for one in whole if one.kind.rpartition(".")[2] in ("ElementwiseBinary", "ElementwiseUnary")]
    )


def store(folder: Path | str, facts: Mapping[str, str] | None = FACTS, **changed: str) -> ArtefactStore:
    return ArtefactStore("Npu", str(folder), lambda: None if facts is None else {**facts, **changed})


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_what_was_written_is_read_by_equal_parts_alone(tmp_path: Path) -> None:
    kept = store(tmp_path)
    key = kept.key(part())
    assert kept.read(key) is None
    assert kept.write(key, b"compiled")
    again = store(tmp_path)
    assert again.read(again.key(part())) == b"compiled"
    assert again.why_miss(again.key(part())) == ""
    for other in (
        network(3.0),
        network(np.float32([2, 2, 2])),
        network(shape=(3, 3)),
        network(kind="sin"),
        network(scale=0.5),
    ):
        assert again.read(again.key(part(other))) is None
    lone = part().layers[-1]
    assert again.key(lone) != key
    assert again.read(again.key(lone)) is None
    assert kept.write(key, b"")
    assert again.read(key) == b"", "an empty artefact is one"


def test_a_relative_folder_is_the_one_of_when_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = ArtefactStore("Acme", "kept", dict)
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    key = store.key(part())
    store.write(key, b"compiled")
    assert store.read(key) == b"compiled"
    assert [path.suffix for path in (tmp_path / "kept").iterdir()] == [".artefact"]


def test_names_of_layers_do_not_count_and_a_layer_is_a_part() -> None:
    first, second = network(), network()
    for layer in list(second):
        second.rename(layer, f"another {layer.name}")
    assert part_digests(part(first)) == part_digests(part(second))
    made = store("").key(part().layers[0])
    assert made == store("").key(part().layers[0])
    assert made.file_name.startswith("Npu-")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"driver": "550.2"}, "driver: 535.1 then, 550.2 now"),
        ({"version": "1.1", "files": "cd" * 32}, "version: 1.0 then, 1.1 now; files: abababababab then, cdcdcdcdcdcd now"),
        ({"option precision": "low"}, "option precision: high then, low now"),
        ({"threads": "2"}, "threads: 4 then, 2 now"),
        ({"half precision": "yes"}, "half precision: not known then, yes now"),
        ({"device": ""}, "device: NPU then, none now"),
    ],
)
def test_a_miss_names_what_differs(tmp_path: Path, changed: dict[str, str], said: str) -> None:
    kept = store(tmp_path)
    kept.write(kept.key(part()), b"compiled")
    now = store(tmp_path, **changed)
    key = now.key(part())
    assert now.read(key) is None
    assert now.why_miss(key) == said
    now.write(key, b"anew")
    assert (now.read(key), now.why_miss(key)) == (b"anew", "")
    assert kept.read(kept.key(part())) == b"compiled", "both are kept"


def test_a_miss_is_explained_by_the_artefact_that_is_most_alike(tmp_path: Path) -> None:
    for facts in ({"driver": "1", "threads": "1", "device": "old"}, {"driver": "2"}, {"driver": "3", "threads": "1"}):
        one = store(tmp_path, **facts)
        one.write(one.key(part()), b"compiled")
    now = store(tmp_path)
    assert now.why_miss(now.key(part())) == "driver: 2 then, 535.1 now"
    assert "constants: " in now.why_miss(store(tmp_path, driver="2").key(part(network(7.0))))
    assert now.why_miss(now.key(part(network(shape=(9, 9))))) == "nothing is kept for these layers yet"


def test_a_backend_names_more_that_decides(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.write(kept.key(part(), compiler="17.1"), b"compiled")
    key = kept.key(part(), compiler="18.0")
    assert kept.read(key) is None
    assert kept.why_miss(key) == 'backend.compiler: "17.1" then, "18.0" now'


@pytest.mark.parametrize("name", [*FACTS, "part", "constants", "self", "digests", "option precision"])
def test_no_name_of_a_backend_stands_for_a_fact_of_the_core(name: str) -> None:
    facts = {fact: value for fact, value in FACTS.items() if fact != name}
    keys = [store("", {**facts, name: value}).key(part(), **{name: "x"}) for value in ("1", "2")]
    if name in FACTS:
        assert keys[0].digest != keys[1].digest
    assert keys[0].facts[f"backend.{name}"] == '"x"'
    assert store("").key(part(), **{name: "x"}).digest != store("").key(part()).digest


@pytest.mark.parametrize("field", ["name", "revision", "memory_bytes", "half_precision"])
@pytest.mark.parametrize("fact", ["device", "revision", "memory", "half precision", "threads", "files", "option tile"])
def test_no_fact_of_a_device_hides_what_the_core_knows(field: str, fact: str) -> None:
    one, other = {"name": ("A", "B"), "revision": ("A", "B"), "memory_bytes": (5, 6), "half_precision": (True, False)}[field]
    first, second = (Device(facts={fact: "z"}, **{field: value}) for value in (one, other))
    assert device_facts(first) != device_facts(second)
    assert not {"threads", "files", "option tile"} & set(device_facts(first))


def test_values_of_all_types_are_told_apart() -> None:
    values = [1, "1", 1.0, True, "true", "True", b"1", "bytes 31", 0.0, -0.0, "", b"", "None", "null", float("nan"), "NaN"]
    values += ["x" * 5000, "x" * 4999 + "y", b"x" * 5000, "sha256 " + "0" * 64]
    kept = store("")
    assert len({kept.key(part(), compiler=value).digest for value in values}) == len(values)
    assert len({text_of(device_facts(Device(facts={"a": value}))) for value in values if not isinstance(value, bytes)}) == 17


@pytest.mark.parametrize("value", [None, np.zeros(5000), (1, 2), {"a": 1}, object()])
def test_what_has_no_text_that_tells_it_apart_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"'weights' is .* such as a digest"):
        store("").key(part(), weights=value)


def test_without_a_folder_nothing_is_kept_and_said_why(tmp_path: Path) -> None:
    kept = store("")
    key = kept.key(part())
    assert (kept.write(key, b"compiled"), kept.read(key), kept.folder, kept.path(key)) == (False, None, None, None)
    assert "option 'artefacts'" in kept.why_miss(key)
    nameless = store(tmp_path, None)
    key = nameless.key(part())
    assert (nameless.write(key, b"compiled"), nameless.read(key)) == (False, None)
    assert "no files to be known by" in nameless.why_miss(key)
    assert not list(tmp_path.iterdir())


def test_no_flipped_bit_and_no_cut_is_shown_to_a_backend(tmp_path: Path) -> None:
    kept = store(tmp_path)
    key = kept.key(part())
    kept.write(key, b"a few bytes")
    path = only(tmp_path)
    content = path.read_bytes()
    damaged = [content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :] for i in range(0, len(content), 3)]
    damaged += [content[:i] for i in range(0, len(content), 31)] + [content + b"\0", content * 2, b"\0" * len(content), b""]
    for one in damaged:
        path.write_bytes(one)
        assert kept.read(key) is None
        assert kept.why_miss(key) == f"{path} is damaged"
    path.write_bytes(content)
    assert kept.read(key) == b"a few bytes"


def test_a_file_under_the_name_of_another_is_not_used(tmp_path: Path) -> None:
    kept, other = store(tmp_path), store(tmp_path, driver="550.2")
    key, wanted = kept.key(part()), other.key(part())
    kept.write(key, b"compiled")
    only(tmp_path).rename(tmp_path / wanted.file_name)
    assert other.read(wanted) is None


@pytest.mark.parametrize("which", ["folder", "file", "link", "fifo", "owner of the file", "owner of the folder"])
def test_what_others_could_have_written_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str) -> None:
    kept = store(tmp_path)
    key = kept.key(part())
    kept.write(key, b"compiled")
    path = only(tmp_path)
    if which == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif which == "fifo":
        path.unlink()
        os.mkfifo(path, 0o600)
    elif which.startswith("owner"):
        if os.geteuid() != 0:
            pytest.skip("only root can make files of other users")
        os.chown(path if which.endswith("file") else tmp_path, 12345, 12345)
    else:
        (tmp_path if which == "folder" else path).chmod(0o777)
    fresh = store(tmp_path)
    with caplog.at_level(logging.INFO, "dovetail"):
        assert fresh.read(key) is None
    words = {"folder": "others can write", "file": "others can write", "fifo": "no regular file"}.get(
        which, "belongs to user 12345"
    )
    assert which == "link" or words in fresh.why_miss(key)
    assert which == "link" or words in caplog.text
    if "folder" in which:
        assert not fresh.write(key, b"anew")
        assert path.exists()


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    kept = store(tmp_path / "file" / "below")
    key = kept.key(part())
    with caplog.at_level(logging.WARNING, "dovetail"):
        for _ in range(2):
            assert not kept.write(key, b"compiled")
            assert kept.read(key) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    """Files of this process cannot grow beyond some bytes: the write fails half way."""
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_artefacts import part, store
kept = store({str(tmp_path)!r})
key = kept.key(part())
assert kept.write(key, b"before")
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
assert not kept.write(key, bytes(1 << 20))
assert kept.read(key) == b"before"
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert only(tmp_path).suffix == ".artefact", "nothing half written is left"


def test_what_a_killed_writer_left_goes_and_files_of_others_stay(tmp_path: Path) -> None:
    kept = store(tmp_path)
    old, young, foreign = tmp_path / ".writing-x.1.2", tmp_path / ".writing-y.1.2", tmp_path / ".gitignore"
    for path in (old, young, foreign):
        path.write_text("half")
    for path in (old, foreign):
        os.utime(path, (time.time() - 7200,) * 2)
    kept.write(kept.key(part()), b"compiled")
    assert (old.exists(), young.exists(), foreign.exists()) == (False, True, True)


def test_processes_share_a_folder(tmp_path: Path) -> None:
    """Each reads what one of them wrote, whole, whatever the others do meanwhile."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_artefacts import part, store
kept = store({str(tmp_path)!r})
key = kept.key(part())
for turn in range(15):
    assert kept.write(key, bytes([turn]) * 100_000)
    content = kept.read(key)
    assert content is not None and len(content) == 100_000 and len(set(content)) == 1
"""
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert only(tmp_path).suffix == ".artefact"


class Mode(Enum):
    FAST = 1


@dataclass(frozen=True)
class Options:
    precision: str = "high"
    mode: Mode = Mode.FAST
    level: int | None = None
    artefacts: str = ""


def test_options_are_facts_but_for_the_folder() -> None:
    assert option_facts(Options()) == {"option precision": '"high"', "option mode": '["Mode", "FAST"]', "option level": "null"}
    assert option_facts(Options()) == option_facts(replace(Options(), artefacts="elsewhere"))
    assert folder_of(replace(Options(), artefacts="here")) == "here"
    assert folder_of(object()) == ""


def test_what_has_no_content_to_be_known_by_is_refused() -> None:
    made = network(np.float32(2))
    view = part(made)
    constant = next(layer for layer in made if layer.kind.endswith("Constant"))
    object.__setattr__(constant.descriptor, "value", np.array([object()]))
    with pytest.raises(TypeError, match="no content to know it by"):
        store("").key(view)


def test_a_key_is_the_same_in_the_next_process() -> None:
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_artefacts import part, store
print(store("").key(part()).file_name)
"""
    made = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert made.stdout.strip() == store("").key(part()).file_name
