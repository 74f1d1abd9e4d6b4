"""Check that the fuzzer finds planted defects, repeats its mutants, and finds nothing else.

It makes 2,000 mutants of ONNX files and 1,000 of TensorFlow Lite's, and runs the corpus.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "corpus"
MUTANTS = {"onnx": 2000, "tflite": 1000}
RUNNING = {"onnx": 5, "tflite": 8}
"""Of so many mutants one must run: if most are refused, hardly a kernel is tried."""

DIGEST = """
import hashlib, sys
from tools.fuzz.command import FORMATS
kind, total = FORMATS[sys.argv[1]], hashlib.sha256()
seeds = kind.load_seeds()
for number in range(300):
    mutant = kind.make(seeds, 5, number)
    total.update(mutant.data + repr((mutant.luck, mutant.hostile, mutant.made)).encode())
    for name, value in mutant.feeds.items():
        total.update(name.encode() + value.tobytes())
print(seeds.digest, total.hexdigest())
"""


def run(*arguments, expect=(0,), **environment):
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **environment},
    )
    assert done.returncode in expect, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def planted():
    """What the fuzzer made of models that crash, hang and so on."""
    return json.loads(run("tests/fuzz_plants.py"))


@pytest.mark.parametrize(
    ("operator", "verdict", "what", "stage"),
    [
        ("Softsign", "crash", "SIGSEGV", "CpuRef: load"),
        ("Sinh", "hang", "hang", "CpuRef: load"),
        ("Erf", "hang", "hang", "CpuRef: run"),  # it sleeps: there is no processor time to go by
        ("Cosh", "memory", "memory", None),
        ("Asinh", "foreign exception", "RuntimeError", "CpuRef: load"),
        ("Tan", "foreign exception", "MODEL_MALFORMED cannot be printed", "CpuRef: load"),
        ("Acosh", "refused by one configuration", "MODEL_MALFORMED", "CpuAcc: load"),
        ("Atan", "different answers", "values", "CpuRef against CpuAcc"),
        ("Elu", "ran", "", "done"),  # nothing is wrong with it, and it is the last of the batch
    ],
)
def test_what_is_planted_is_found(planted, operator, verdict, what, stage):
    outcome = planted["outcomes"][operator]
    assert (outcome["verdict"], outcome["what"]) == (verdict, what), outcome
    assert stage in (None, outcome["stage"])


def test_every_defect_is_a_finding_of_its_own(planted):
    assert planted["findings"] == len(planted["outcomes"]) - 1


def test_a_crash_tells_where_it_was(planted):
    assert "Segmentation fault" in planted["outcomes"]["Softsign"]["text"]
    assert "fuzz_plants.py" in planted["outcomes"]["Sinh"]["text"]


def test_children_that_cannot_even_begin_end_the_run(planted):
    assert "ZeroDivisionError" in planted["stillborn"]


def test_nothing_is_blamed_for_what_came_before_it(planted):
    assert planted["moment"] == ["memory", "ran", "ran"]


def test_a_finding_is_made_smaller(planted):
    before, after, kept = planted["sizes"]
    assert kept
    assert after < before / 2


@pytest.mark.slow
@pytest.mark.parametrize("form", MUTANTS)
def test_mutants_are_the_same_again(form):
    with ThreadPoolExecutor() as both:
        first, second = both.map(lambda seed: run("-c", DIGEST, form, PYTHONHASHSEED=seed), "12")
    assert first == second


@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", [pytest.param("onnx", marks=pytest.mark.slow), "tflite"])
def test_mutants_show_no_defect(form, tmp_path):
    """What is printed says how to see it again: `dev.py fuzz --format F --seed S --only NUMBER`."""
    report = tmp_path / "report.json"
    words = ["-m", "tools.fuzz", "--format", form, "--count", MUTANTS[form], "--peer", "none"]
    words += ["--jobs", len(os.sched_getaffinity(0))]
    said = run(*words, "--report", report, expect=(0, 1))
    told = json.loads(report.read_text("utf-8"))
    assert told["mutants"] == MUTANTS[form]
    assert told["verdicts"]["ran"] > MUTANTS[form] / RUNNING[form]
    assert not told["findings"], said[-4000:]


def test_the_corpus_shows_no_defect(tmp_path):
    files = sorted(path for path in CORPUS.iterdir() if path.suffix in (".onnx", ".tflite"))
    assert files, "the corpus is gone"
    assert sum(path.stat().st_size for path in CORPUS.iterdir()) < 200_000
    assert all(json.loads(path.with_suffix(".json").read_text("utf-8"))["showed"] for path in files)
    assert len({hashlib.sha256(path.read_bytes()).hexdigest() for path in files}) == len(files)
    run("-m", "tools.fuzz", "--peer", "none", "--replay", *files)
