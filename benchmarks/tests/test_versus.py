from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from versus import peers as table
from versus import run
from versus.child import Child, ChildError
from versus.peers import Peer

from dovetail import ErrorCode

Invoke = Callable[..., Result]

BENCHMARKS = Path(__file__).parents[1]
FAKE = Path(__file__).with_name("fake_runtime.py")
QUICK = ("--rounds", 2, "--block", 0.01, "--repeats", 0, "--starts", 1)


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name runtimes after what they do, without a peak; dovetail is one that agrees.

    All import json, which is there."""
    monkeypatch.setattr(run, "DOVETAIL", Peer("dovetail", "json", "json", FAKE))
    monkeypatch.setenv("CC", "/no/such/cc")
    behaviours = ("agree", "slow", "disagree", "crash", "crash later", "hang", "raise", "drift")
    for behaviour in behaviours:
        name = behaviour.replace(" ", "-")
        monkeypatch.setitem(table.PEERS, name, Peer(name, "json", "json", FAKE, options={"behaviour": behaviour}))
    monkeypatch.setitem(table.PEERS, "absent", Peer("absent", "no_such_runtime", "no-such-runtime", FAKE))
    monkeypatch.setitem(table.PEERS, "twin", Peer("twin", "json", "json", FAKE, suffix=".tflite", channels_last=True))
    monkeypatch.setitem(
        table.PEERS, "inexact", Peer("inexact", "json", "json", FAKE, exact=False, options={"behaviour": "agree"})
    )


def entries_of(file: Path, comparison: int = 0) -> dict[str, dict[str, object]]:
    document = json.loads(file.read_text())
    return {entry["runtime"]: entry for entry in document["comparisons"][comparison]["entries"]}


def test_every_fate_of_a_peer(models: Invoke, adder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    peers = "agree,slow,disagree,crash,crash-later,hang,raise,absent,twin,inexact"
    result = models(adder, "--versus", peers, "--threads", 1, "--timeout", 3, "--json", file, *QUICK)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    found = entries_of(file)
    assert {name: entry["state"] for name, entry in found.items()} == {
        "dovetail": "measured",
        "agree": "measured",
        "slow": "measured",
        "disagree": "disagrees",
        "crash": "failed",
        "crash-later": "failed",
        "hang": "failed",
        "raise": "failed",
        "twin": "absent",
        "inexact": "measured",
    }
    reasons = {name: str(entry["reason"]) for name, entry in found.items()}
    assert "answers otherwise than agree: off by" in reasons["disagree"]
    assert "SIGSEGV while it loaded" in reasons["crash"]
    assert "the vendor's last words" in reasons["crash"]
    assert "status 3" in reasons["crash-later"]
    assert "hung: no answer within 3 s" in reasons["hang"]
    assert "ValueError: no such operator" in reasons["raise"]
    assert "there is no adder.tflite beside adder.onnx" in reasons["twin"]
    for reason in filter(None, reasons.values()):
        assert reason in result.stdout
    assert "pip install no-such-runtime" in result.stdout
    for name in ("dovetail", "agree", "slow", "disagree", "inexact"):
        entry = found[name]
        assert len(entry["blocks"]) == 2  # type: ignore[arg-type]  # a list, in JSON
        assert 0 < entry["minimum_seconds"] <= entry["median_seconds"]  # type: ignore[operator]  # numbers, in JSON
        assert entry["memory_bytes"] >= 0  # type: ignore[operator]  # a number, in JSON
    comparison = json.loads(file.read_text())["comparisons"][0]
    assert comparison["best_peer"] == "agree"  # "disagree" and "inexact" are as fast
    assert comparison["ratio"] > 0
    assert "percent of peak is left out: no C compiler (/no/such/cc) is on PATH" in result.stdout


def test_dovetail_itself(models: Invoke, adder: Path, classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "DOVETAIL", table.DOVETAIL)
    result = models(adder, "--versus", "agree", "-b", "CpuRef", "--threads", 1, "--json", *QUICK)
    assert result.exit_code == 0, result.output
    ours, _ = json.loads(result.stdout)["comparisons"][0]["entries"]
    assert ours["facts"] == {"backends": ["CpuRef"]}
    assert ours["agreement"]["against"] == "agree"
    alone = models(adder, classifier, "--versus", "", "--shape", "N=2", "-b", "CpuRef", "--threads", 1, *QUICK)
    assert alone.exit_code == 1  # the adder has no N
    assert "best peer" not in alone.stdout
    assert "adder.onnx: not measured: --shape N=...: the network has no such input" in alone.stdout
    assert "classifier.onnx (30 MAC)" in alone.stdout


def test_each_start_is_a_process_of_its_own(models: Invoke, adder: Path) -> None:
    quick = QUICK[: QUICK.index("--starts")]
    result = models(adder, "--versus", "agree", "--threads", 1, "--json", *quick, "--starts", 3)
    assert result.exit_code == 0, result.output
    for entry in json.loads(result.stdout)["comparisons"][0]["entries"]:
        assert len({start["load_seconds"] for start in entry["starts"]}) == 3  # no two clocks say the same
        for start in entry["starts"]:
            assert min(start["import_seconds"], start["load_seconds"], start["first_seconds"]) > 0
            assert 0 < start["baseline_bytes"] <= start["imported_bytes"] <= start["peak_bytes"]


def test_models_and_threads_in_one_run(models: Invoke, adder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    other = adder.with_name("other.onnx")
    other.write_bytes(adder.read_bytes())
    result = models(adder, other, "--versus", "agree", "--threads", "1", "2", "--json", file, *QUICK)
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    assert [(one["model"], one["threads"]) for one in document["comparisons"]] == [
        (model, threads) for model in ("adder.onnx", "other.onnx") for threads in (1, 2)
    ]
    assert document["geometric_means"].keys() == {"1", "2"}
    assert document["geometric_means"]["1"]["models"] == 2
    for text in (
        "geometric mean of 2",
        "machine: ",
        "versions: dovetail ",
        "date: ",
        f"command: python3 dev.py bench models {adder}",
    ):
        assert text in result.stdout


def test_expected_outputs_beside_the_model(models: Invoke, adder: Path) -> None:
    a, b = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32)
    np.savez(adder.with_suffix(".npz"), in_a=a, in_b=b, ref_sum=a + b, ref_1=-a - b)
    good = models(adder, "--versus", "agree", "--markdown", *QUICK)
    assert good.exit_code == 0, good.output
    assert "| model | threads | runtime |" in good.stdout
    np.savez(adder.with_suffix(".npz"), a=a, b=b, sum=a - b, negative=b - a)
    bad = models(adder, "--versus", "agree", *QUICK)
    assert bad.exit_code == 1
    assert "dovetail answers otherwise than adder.npz" in bad.stdout
    np.savez(adder.with_suffix(".npz"), a=a)
    partial = models(adder, "--versus", "agree", *QUICK)
    assert partial.exit_code == 1
    assert "none for 'b'" in partial.stdout


def test_an_unreadable_model_does_not_end_the_run(models: Invoke, adder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no protobuf")
    result = models(broken, adder, "--versus", "agree", "--json", *QUICK)
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["failures"].keys() == {"broken.onnx"}
    assert [one["model"] for one in document["comparisons"]] == ["adder.onnx"]


def test_a_later_answer_counts_too(models: Invoke, adder: Path) -> None:
    result = models(adder, "--versus", "agree,drift", *QUICK)
    assert result.exit_code == 1
    assert "drift answers otherwise than agree" in result.stdout


def test_no_peer_is_there(models: Invoke, adder: Path) -> None:
    result = models(adder, "--versus", "absent")
    assert result.exit_code == 1
    assert "none of the runtimes to compare with is there: absent" in result.stderr
    assert "pip install no-such-runtime" in result.stderr
    assert "--peer-python" in result.stderr


def test_an_interpreter_that_is_none(models: Invoke, adder: Path, tmp_path: Path) -> None:
    for python in (tmp_path / "python", Path("/bin/false")):
        result = models(adder, "--versus", "agree", "--peer-python", python)
        assert result.exit_code == 1
        assert f"the interpreter '{python}' cannot run peers" in result.stderr


def test_wrong_command_lines(models: Invoke, adder: Path) -> None:
    unknown = models(adder, "--versus", "tensorrt")
    assert unknown.exit_code == 2
    assert "there is no runtime 'tensorrt'" in unknown.stderr
    assert "openvino-bf16" in unknown.stderr
    assert models(adder, "--threads", "two").exit_code == 2
    assert models(adder, "--threads", "0").exit_code == 2


def test_folders_stand_for_their_models_and_nothing_for_the_demo(models: Invoke, adder: Path) -> None:
    folder = models(adder.parent, "--versus", "agree", "--threads", 1, "--json", *QUICK)
    assert [one["model"] for one in json.loads(folder.stdout)["comparisons"]] == [adder.name]
    demo = models("--versus", "agree", "--threads", 1, "--json", *QUICK)
    assert [one["model"] for one in json.loads(demo.stdout)["comparisons"]] == ["digits.onnx"]


def task(tmp_path: Path, behaviour: str = "") -> dict[str, object]:
    feeds = tmp_path / "feeds.npz"
    np.savez(feeds, np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
    return {
        "module": "json",
        "source": str(FAKE),
        "model": "adder.onnx",
        "feeds": str(feeds),
        "inputs": ["a", "b"],
        "threads": 1,
        "options": {"behaviour": behaviour},
        "warm_up": 0.01,
        "first": str(tmp_path / "first.npz"),
        "later": str(tmp_path / "later.npz"),
    }


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.skipif(sys.platform != "linux", reason="the state of a process is read from /proc")
def test_a_child_is_stopped_outside_its_blocks(tmp_path: Path) -> None:
    child = Child("agree", sys.executable, task(tmp_path), 30)
    try:
        pid = child._process.pid
        for _ in range(2):
            deadline = time.monotonic() + 10
            while state_of(pid) != "T" and time.monotonic() < deadline:
                time.sleep(0.01)
            assert state_of(pid) == "T"
            assert child.block(0.01)["count"] > 0
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ChildError, match="by SIGKILL while it was timed"):
            child.block(0.01)
    finally:
        child.end()
    child.end()


def test_a_hang_is_a_timeout(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match="hung") as caught:
        Child("hang", sys.executable, task(tmp_path, "hang"), 0.5)
    assert caught.value.code is ErrorCode.TIMEOUT


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_stopped_child_ends_with_its_parent(tmp_path: Path) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r})\n"
        "import json, os, signal; from versus.child import Child\n"
        "child = Child('agree', sys.executable, json.loads(sys.argv[1]), 30)\n"
        "print(child._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run([sys.executable, "-c", program, json.dumps(task(tmp_path))], capture_output=True, text=True)
    pid = int(parent.stdout)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and state_of(pid) != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists() or state_of(pid) == "Z"
