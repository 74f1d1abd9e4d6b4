"""Choices of backends: measured, kept, taken by later loads, and ignored where they do not hold."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dovetail
from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import Capabilities, IBackend, IWorkloadFactory, Support
from dovetail.contract.subgraph import Choice, Choices, OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import OpaqueLayout, TensorInfo
from dovetail.ground.errors import BackendError, ErrorCode, OptionError, RunError
from dovetail.layers.network import Network
from dovetail.optimizer.tuned_choices import Findings
from dovetail_sdk.tuning import measuring, tune

SLOW = 0.001


@dataclass(frozen=True, kw_only=True)
class Scale(Descriptor, kind="fake.Scale"):
    """x * factor, in a while."""

    input_names: ClassVar[tuple[str, ...]] = ("x",)
    factors: Any = None
    seconds: float = 0.0
    spoils: bool = False
    """Makes every other layer of its network slow from then on."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def infer(self, inputs: Any) -> Sequence[TensorInfo]:
        return [inputs[0]]


@dataclass(frozen=True, kw_only=True)
class Quick(Scale, kind="fake.Quick"):
    """The same, named otherwise, for profiles to show."""


class Work:
    """Computes a Scale."""

    def __init__(self, descriptor: Scale, spoilt: set[int]) -> None:
        self.descriptor, self.spoilt = descriptor, spoilt

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        if self.descriptor.spoils:
            self.spoilt.add(id(self.descriptor))
        seconds = self.descriptor.seconds + (SLOW if self.spoilt - {id(self.descriptor)} else 0)
        if seconds:
            time.sleep(seconds)
        outputs[0][...] = inputs[0] * self.descriptor.factors


class Factory(IWorkloadFactory):
    def __init__(self) -> None:
        self.spoilt: set[int] = set()

    def create_workload(self, layer: Layer) -> Any:
        assert isinstance(layer.descriptor, Scale)
        return Work(layer.descriptor, self.spoilt)


@dataclass(frozen=True)
class FakeOptions:
    level: int = 0


Offer = Callable[[Choices, Layer], None]


def quick(answer: Choices, layer: Layer) -> None:
    """Offer to compute slow layers quickly, and somewhat quickly."""
    descriptor = layer.descriptor
    if isinstance(descriptor, Scale) and descriptor.seconds:
        ways = {
            "quick": Quick(factors=descriptor.factors),
            "slower": Quick(factors=descriptor.factors, seconds=2 * descriptor.seconds),
        }
        answer.offer(layer, "slow", ways)


class Fake(IBackend):
    """Runs Scales; offers what it is told to."""

    options_type = FakeOptions

    def __init__(self, offer: Any = quick, *, asynchronous: bool = False) -> None:
        self.offer = offer
        self.asynchronous = asynchronous
        self.asked = 0

    @property
    def id(self) -> BackendId:
        return BackendId("Fake")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes() if isinstance(layer.descriptor, Scale) else Support.no("kind", "it is no Scale")

    def create_workload_factory(self, *arguments: Any) -> Any:
        return Factory()

    def capabilities(self) -> Capabilities:
        return Capabilities(asynchronous=self.asynchronous)

    def choices(self, view: SubgraphView, options: Any, device: Any) -> Choices:
        self.asked += 1
        answer = Choices(view)
        for layer in view.layers:
            self.offer(answer, layer)
        return answer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tune quickly, into a folder of the test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", str(folder))
    monkeypatch.delenv("DOVETAIL_TUNING", raising=False)
    monkeypatch.setattr(measuring, "BLOCK_SECONDS", 0.001)
    monkeypatch.setattr(measuring, "is_disturbed", lambda foreign, threads: False)
    return folder / "tuning"


def network(*seconds: float, size: int = 4, factor: float = 2.0) -> Network:
    """A chain of Scales."""
    net = Network("chain")
    slot = net.input("x", (size,))
    for number, one in enumerate(seconds):
        slot = net.add(Scale(factors=np.full(size, factor, np.float32), seconds=one), slot, name=f"scale{number}").output
    net.output(slot, "y")
    return net


def kinds(net: Network, backend: IBackend, **arguments: Any) -> list[str]:
    """Load and run a network, and return the kinds of its steps."""
    with dovetail.load(net, backend, **arguments) as loaded, loaded.profiling() as profile:
        size = loaded.inputs[0].shape[0]
        y = loaded.run({"x": np.arange(size, dtype=np.float32)})["y"]
    factor = np.prod([layer.descriptor.factors[0] for layer in net if isinstance(layer.descriptor, Scale)])
    np.testing.assert_array_equal(y, np.arange(size) * factor)
    return [layer.kind for layer in profile.layers]


def test_the_fastest_way_is_found_and_taken_by_the_next_load(cache: Path) -> None:
    net = network(SLOW, 0.0, SLOW)
    assert kinds(net, Fake()) == ["fake.Scale"] * 3
    report = tune(net, Fake(), threads=1)
    assert [(row.layers, row.default, row.winner, row.is_new) for row in report.layers] == [
        (("scale0",), "slow", "quick", True),
        (("scale2",), "slow", "quick", True),
    ]
    seconds = report.layers[0].seconds
    assert seconds["quick"] < SLOW <= seconds["slow"] < 2 * SLOW <= seconds["slower"]
    assert report.gain_seconds == pytest.approx(2 * (seconds["slow"] - seconds["quick"]))
    assert report.before_seconds is not None
    assert report.after_seconds is not None
    assert report.before_seconds > 2 * SLOW > report.after_seconds
    assert (report.folder, report.notes, report.threads) == (str(cache), (), 1)
    assert kinds(net, Fake(), threads=1) == ["fake.Quick", "fake.Scale", "fake.Quick"]
    assert len(list(cache.iterdir())) == 1  # the two layers are alike


def test_reports_and_profiles_say_what_was_tuned() -> None:
    net = network(SLOW, 0.0)
    tune(net, Fake(), threads=1)
    with dovetail.load(net, Fake(), threads=1) as loaded, loaded.profiling() as profile:
        loaded.run({"x": np.zeros(4, np.float32)})
    assert [row.tuned for row in loaded.placement.layers] == ["tuned: quick, not slow", ""]
    assert "; tuned: quick, not slow" in loaded.placement.explain()
    assert loaded.placement.to_dict()["layers"][0]["tuned"] == "tuned: quick, not slow"
    assert loaded.placement.layers[0].sources == ("scale0",)
    assert [layer.tuned for layer in profile.layers] == ["tuned: quick, not slow", ""]
    assert "tuned: quick, not slow" in profile.table()


def test_a_default_that_is_fastest_stays_and_is_said_to_be_tuned() -> None:
    def slower(answer: Choices, layer: Layer) -> None:
        answer.offer(layer, "plain", {"slower": Quick(factors=layer.descriptor.factors, seconds=SLOW)})  # type: ignore[attr-defined]

    report = tune(network(0.0), Fake(slower), threads=1)
    assert [row.winner for row in report.layers] == ["plain"]
    assert report.before_seconds is None
    assert dovetail.optimize(network(0.0), Fake(slower), threads=1).placement.layers[0].tuned == "tuned: plain, as by default"


@pytest.mark.parametrize("off", ["off", "0", "no"])
def test_a_variable_and_an_argument_switch_it_off(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network(SLOW)
    tune(net, Fake(), threads=1)
    assert kinds(net, Fake(), threads=1, tuned=False) == ["fake.Scale"]
    monkeypatch.setenv("DOVETAIL_TUNING", off)
    assert kinds(net, Fake(), threads=1) == ["fake.Scale"]


def test_without_findings_no_backend_is_asked() -> None:
    backend = Fake()
    kinds(network(SLOW), backend)
    assert backend.asked == 0


def test_it_holds_for_the_same_part_whatever_its_weights_and_network() -> None:
    tune(network(SLOW), Fake(), threads=1)
    assert kinds(network(0.0, SLOW, factor=3.0), Fake(), threads=1) == ["fake.Scale", "fake.Quick"]
    assert kinds(network(SLOW, size=5), Fake(), threads=1) == ["fake.Scale"]
    assert kinds(network(SLOW * 1.5), Fake(), threads=1) == ["fake.Scale"]


def test_it_holds_for_the_same_threads_and_options_alone() -> None:
    net = network(SLOW)
    with dovetail.Runtime(threads=2) as runtime:
        tune(net, Fake(), threads=1, runtime=runtime, options={"Fake": {"level": 1}})
        alike: dict[str, Any] = {"runtime": runtime, "options": {"Fake": {"level": 1}}}
        assert kinds(net, Fake(), threads=1, **alike) == ["fake.Quick"]
        assert kinds(net, Fake(), threads=2, **alike) == ["fake.Scale"]
        assert kinds(net, Fake(), threads=1, runtime=runtime) == ["fake.Scale"]


def test_it_holds_for_the_same_files_processor_and_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dovetail.optimizer import tuned_keys

    source = tmp_path / "vendor_fake.py"
    source.write_text("class Fake(Base):\n    pass\n")
    monkeypatch.setattr("builtins.Base", Fake, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    backend = import_module("vendor_fake").Fake()
    net = network(SLOW)
    tune(net, backend, threads=1)
    assert kinds(net, backend, threads=1) == ["fake.Quick"]
    os.utime(source, (0, 0))
    assert kinds(net, backend, threads=1) == ["fake.Quick"]  # content decides
    with monkeypatch.context() as other:
        other.setattr(tuned_keys, "processor", lambda: {"machine": "another"})
        assert kinds(net, backend, threads=1) == ["fake.Scale"]
    with monkeypatch.context() as other:
        other.setattr(tuned_keys, "core_version", lambda: "9.9")
        assert kinds(net, backend, threads=1) == ["fake.Scale"]
    assert kinds(net, backend, threads=1) == ["fake.Quick"]
    source.write_text("class Fake(Base):\n    'Version 2.'\n")
    assert kinds(net, backend, threads=1) == ["fake.Scale"]


def resealed(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Change the fields of a finding, and make its digest fit."""

    def changed(content: bytes) -> bytes:
        fields = json.loads(content.partition(b"\n")[2])
        change(fields)
        body = json.dumps(fields).encode()
        return hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    return changed


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut in the digest": lambda content: content[:20],
    "cut in the middle": lambda content: content[: len(content) // 2],
    "cut at the end": lambda content: content[:-1],
    "a bit": lambda content: content[:90] + bytes([content[90] ^ 4]) + content[91:],
    "another way": lambda content: content.replace(b'"winner": "quick"', b'"winner": "slower"'),
    "no text": lambda content: b"\xff\x00" * 500,
    "no JSON": lambda content: hashlib.sha256(b"{").hexdigest().encode() + b"\n{",
    "a list": lambda content: hashlib.sha256(b"[]").hexdigest().encode() + b"\n[]",
    "a later format": resealed(lambda fields: fields.update(format=2)),
    "without a field": resealed(lambda fields: fields.pop("seconds")),
    "for something else": resealed(lambda fields: fields.update(key="0" * 64)),
    "an unknown way": resealed(lambda fields: fields.update(winner="gone")),
    "a way of no time": resealed(lambda fields: fields["seconds"].pop("quick")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_not_used_and_told(
    damage: Callable[[bytes], bytes], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = network(SLOW)
    tune(net, Fake(), threads=1)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    assert damage(whole) != whole
    path.write_bytes(damage(whole))
    with caplog.at_level(logging.INFO, "dovetail"):
        assert kinds(net, Fake(), threads=1) == ["fake.Scale"]
    assert f"what was tuned for Fake in {path.name} is not used" in caplog.text
    assert [row.is_new for row in tune(net, Fake(), threads=1).layers] == [True]
    assert kinds(net, Fake(), threads=1) == ["fake.Quick"]


def test_what_others_could_have_written_is_not_used(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = network(SLOW)
    tune(net, Fake(), threads=1)
    (path,) = cache.iterdir()
    path.chmod(0o666)
    with caplog.at_level(logging.INFO, "dovetail"):
        assert kinds(net, Fake(), threads=1) == ["fake.Scale"]
    assert "is not used" in caplog.text
    path.chmod(0o600)
    assert kinds(net, Fake(), threads=1) == ["fake.Quick"]
    cache.chmod(0o777)
    assert kinds(net, Fake(), threads=1) == ["fake.Scale"]


def test_what_is_known_is_not_measured_again_unless_wanted() -> None:
    tune(network(SLOW), Fake(), threads=1)
    report = tune(network(SLOW), Fake(), threads=1)
    assert [(row.winner, row.is_new) for row in report.layers] == [("quick", False)]
    assert report.before_seconds is None
    mixed = tune(network(SLOW, SLOW * 1.5), Fake(), threads=1)
    assert [(row.winner, row.is_new) for row in mixed.layers] == [("quick", False), ("quick", True)]
    assert mixed.before_seconds is not None
    assert [row.is_new for row in tune(network(SLOW), Fake(), threads=1, again=True).layers] == [True]


@pytest.mark.parametrize(("rounds_done", "expected"), [(2, "fake.Scale"), (4, "fake.Quick")])
def test_an_interruption_keeps_what_was_found(rounds_done: int, expected: str) -> None:
    net = network(SLOW)

    def listener(backend: str, fraction: float, what: str) -> None:
        if what == f"round {rounds_done + 1} of 10":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(net, Fake(), threads=1, progress=listener)
    assert kinds(net, Fake(), threads=1) == [expected]


def test_progress_goes_from_nothing_to_all() -> None:
    told: list[tuple[str, float, str]] = []
    tune(network(SLOW), Fake(), threads=1, rounds=3, progress=lambda *words: told.append(words))
    fractions = [fraction for _, fraction, _ in told]
    assert {backend for backend, _, _ in told} == {"Fake"}
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert [what for _, _, what in told if what.startswith("round")][::3] == [f"round {n} of 3" for n in (1, 2, 3)]


def test_winners_that_slow_the_others_down_are_dropped() -> None:
    def spoiling(answer: Choices, layer: Layer) -> None:
        descriptor = layer.descriptor
        if isinstance(descriptor, Scale) and descriptor.seconds:
            answer.offer(layer, "slow", {"spoiling": Quick(factors=descriptor.factors, spoils=True)})

    net = network(SLOW, 0.0, 0.0)
    report = tune(net, Fake(spoiling), threads=1)
    assert report.layers[0].seconds["spoiling"] < report.layers[0].seconds["slow"]
    assert report.layers[0].winner == "slow"
    assert any("the defaults stay" in note for note in report.notes)
    assert kinds(net, Fake(spoiling), threads=1) == ["fake.Scale"] * 3


def test_two_layers_may_become_one() -> None:
    def fused(answer: Choices, layer: Layer) -> None:
        following = [consumer.layer for consumer in layer.output.consumers]
        if layer.name == "scale0" and following[0] in answer.view:
            graph = Graph("fused")
            x = graph.input("in", (4,))
            graph.output(graph.add(Quick(factors=np.full(4, 4, np.float32)), x, name="both").output, "out")
            answer.offer([layer, following[0]], "apart", {"fused": graph})

    net = network(SLOW, SLOW, 0.0)
    report = tune(net, Fake(fused), threads=1)
    assert [(row.layers, row.sources, row.winner) for row in report.layers] == [
        (("scale0", "scale1"), ("scale0", "scale1"), "fused")
    ]
    assert kinds(net, Fake(fused), threads=1) == ["fake.Quick", "fake.Scale"]


class Blocking(Fake):
    """Keeps what lies between its layers in a layout of its own."""

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        graph = Graph("private")
        slot = graph.input("in", (4,))
        for number, layer in enumerate(view.layers):
            assert isinstance(layer.descriptor, Scale)
            info = TensorInfo((4,), DType.FLOAT32, opaque=OpaqueLayout("blocked", 16)) if number + 1 < len(view) else None
            private = Blocked(factors=layer.descriptor.factors, seconds=layer.descriptor.seconds, info=info)
            slot = graph.add(private, slot, name=layer.name).output
        graph.output(slot, "out")
        views = OptimizationViews(view)
        views.substitute(view, graph)
        return views


@dataclass(frozen=True, kw_only=True)
class Blocked(Scale, kind="fake.Blocked"):
    """A Scale whose result lies in a layout of its own."""

    info: TensorInfo | None = None

    def infer(self, inputs: Any) -> Sequence[TensorInfo]:
        return [self.info or TensorInfo((4,), DType.FLOAT32)]


def test_private_layers_in_private_layouts_have_choices() -> None:
    def faster(answer: Choices, layer: Layer) -> None:
        assert isinstance(layer.descriptor, Blocked)
        answer.offer(layer, "slow", {"quick": replace(layer.descriptor, seconds=0.0)})

    net = network(SLOW, SLOW, SLOW)
    report = tune(net, Blocking(faster), threads=1)
    assert [row.winner for row in report.layers] == ["quick"] * 3
    loaded = dovetail.load(net, Blocking(faster), threads=1)
    assert [row.tuned for row in loaded.placement.layers] == ["tuned: quick, not slow"] * 3
    np.testing.assert_array_equal(loaded.run({"x": np.ones(4, np.float32)})["y"], 8)


def other_layout(answer: Choices, layer: Layer) -> None:
    assert isinstance(layer.descriptor, Blocked)
    if layer.descriptor.info is not None:
        answer.offer(layer, "blocked", {"plain": replace(layer.descriptor, info=None)})


def test_a_replacement_in_another_layout_is_refused() -> None:
    with pytest.raises(
        BackendError, match=r"choices\(\).*no opaque layout.*outside it has the opaque layout 'blocked'"
    ) as error:
        tune(network(SLOW, SLOW), Blocking(other_layout), threads=1)
    assert error.value.code is ErrorCode.SUBSTITUTION_INVALID


class NoContent:
    pass


BREACHES: dict[str, tuple[Offer, str]] = {
    "one name twice": (lambda answer, layer: answer.offer(layer, "one", {"one": layer.descriptor}), "gave two ways"),
    "no name": (lambda answer, layer: answer.offer(layer, "", {"one": layer.descriptor}), "gave a way the name ''"),
    "nothing": (lambda answer, layer: answer.offer([], "one", {}), "a part that is empty"),
    "a layer twice": (
        lambda answer, layer: [answer.offer(layer, "one", {"two": layer.descriptor}) for _ in range(2)],
        "a layer in more than one part",
    ),
    "it raises": (lambda answer, layer: 1 // 0, "ZeroDivisionError"),
    "a name that is no text": (
        lambda answer, layer: answer.offers.append(Choice(answer.view, 3, {})),  # type: ignore[arg-type]
        "gave a way the name 3",
    ),
    "what is no choice": (lambda answer, layer: answer.offers.append(5), "offered 5, not a part"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("fallback", [False, True])
def test_choices_that_change_the_layer_are_undone(fallback: bool, caplog: pytest.LogCaptureFixture) -> None:
    net, vendor = network(SLOW), Fake(lambda answer, layer: layer.inputs.clear())
    if fallback:
        assert tune(net, vendor, threads=1).layers == ()
        assert "choices() changed layers that it was shown" in caplog.text
    else:
        with pytest.raises(BackendError, match=r"Fake.*choices\(\) changed layers that it was shown"):
            tune(net, vendor, threads=1, fallback=False)


@pytest.mark.parametrize(("offer", "words"), BREACHES.values(), ids=BREACHES)
def test_a_breach_of_contract_costs_the_choice_or_is_an_error(
    offer: Offer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    net = network(SLOW)
    with caplog.at_level(logging.WARNING, "dovetail"):
        assert tune(net, Fake(offer), threads=1).layers == ()
    assert words in caplog.text
    with pytest.raises(BackendError, match=r"Fake.*choices\(\)") as error:
        tune(net, Fake(offer), threads=1, fallback=False)
    assert words in error.value.message
    assert error.value.code is ErrorCode.BACKEND_CONTRACT


def test_an_attribute_without_content_has_no_choice(caplog: pytest.LogCaptureFixture) -> None:
    net = Network("odd")
    x = net.input("x", (4,))
    net.output(net.add(Scale(factors=NoContent(), seconds=SLOW), x, name="odd").output, "y")
    with pytest.raises(BackendError, match="a NoContent has no content to know it by"):
        tune(net, Fake(), threads=1, fallback=False)


def test_an_asynchronous_backend_is_not_measured() -> None:
    report = tune(network(SLOW), Fake(asynchronous=True), threads=1)
    assert report.layers == ()
    assert report.notes == ("Fake is asynchronous, and tells no times of its device: its choices cannot be measured",)


def test_where_nothing_can_be_kept_a_note_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_CACHE_DIR", "relative/and/so/ignored")
    report = tune(network(SLOW), Fake(), threads=1)
    assert report.layers[0].winner == "quick"
    assert report.folder is None
    assert report.notes == ("what was found for Fake is not kept: there is no folder for it; set DOVETAIL_CACHE_DIR",)


def test_turns_that_others_disturb_are_repeated_and_told_of_when_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def disturbed(foreign: float, threads: int) -> bool:
        told.append((foreign, threads))
        return len(told) <= limit

    monkeypatch.setattr(measuring, "is_disturbed", disturbed)
    limit = 20
    report = tune(network(SLOW), Fake(), threads=1, rounds=3)
    if not told:
        pytest.skip("this system does not tell how busy it is")
    assert len(told) == 20 + 3 * 3 + 2 * 3
    assert {threads for _, threads in told} == {1}
    assert report.notes == ()
    told, limit = [], 10_000
    (note,) = tune(network(SLOW), Fake(), threads=1, rounds=3, again=True).notes
    assert "other processes took CPU time" in note
    assert len(told) == measuring.REPEATS + 3 * 3 + 2 * 3


def test_findings_of_some_backends_are_forgotten() -> None:
    tune(network(SLOW), Fake(), threads=1)
    assert Findings().backends() == {"Fake"}
    assert Findings().clear(["Other"]) == 0
    assert Findings().clear(["Fake"]) == 1
    assert kinds(network(SLOW), Fake(), threads=1) == ["fake.Scale"]


def test_open_sizes_are_refused() -> None:
    net = Network("open")
    net.output(net.add(Scale(factors=np.float32(1)), net.input("x", ("N",))).output, "y")
    with pytest.raises(RunError) as error:
        tune(net, Fake(), threads=1)
    assert error.value.code is ErrorCode.SHAPE_UNKNOWN


@pytest.mark.parametrize("rounds", [0, 2, 2.5, True])
def test_too_few_rounds_are_refused(rounds: Any) -> None:
    with pytest.raises(OptionError, match="rounds="):
        tune(network(SLOW), Fake(), rounds=rounds)


WRITER = """
import sys
from dovetail.optimizer.tuned_choices import Finding, Findings
findings = Findings()
for number in range(150):
    problem = findings.keep("Fake", "k", Finding(sys.argv[1], {"a": 1.0, "b": 2.0}, {"text": sys.argv[1] * 5000}))
    assert not problem, problem
"""


def test_writers_at_once_leave_a_whole_file(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, way]) for way in ("a", "b", "a")]
    seen = set()
    with caplog.at_level(logging.INFO, "dovetail"):
        while any(writer.poll() is None for writer in writers):
            finding = Findings().read("Fake", "k", ["a", "b"])
            if finding is not None:
                assert finding.facts["text"] == finding.winner * 5000
                seen.add(finding.winner)
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert "is not used" not in caplog.text
    assert seen
    assert [path.name for path in cache.iterdir()] == ["Fake-k.json"]


def test_why_what_was_found_does_not_hold_is_said_by_the_facts_that_differ() -> None:
    Findings().keep(
        "Fake", "a" * 64, measuring.Finding("fast", {"fast": 1.0}, {"device": {"name": "A"}, "threads": 1, "part": 7})
    )
    assert Findings().why_not("Fake", {"device": {"name": "B"}, "threads": 1}) == "device.name: 'A' then, 'B' now"
    assert Findings().why_not("Fake", {"device": {"name": "A"}, "threads": 1}) == ""  # of another part
    assert Findings().why_not("Other", {"device": {"name": "B"}}) == ""
