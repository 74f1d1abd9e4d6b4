"""What `dovetail run` does with what it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy.typing as npt

import dovetail
from dovetail import Limits, LoadedNetwork, Network
from dovetail.runtime import default_runtime

from .answers import Answers, Scores, answers_table, known_outputs, nan_counts, not_finite, outputs_table
from .detections import Detection, Detector, detections, detections_table, draw, find_detector, picture_size
from .expecting import Expected
from .feeding import Feeds, InputSpec, feeds_for, input_specs
from .file_lines import Lines
from .folders import ManyFiles, find_many
from .labels import ClassNames
from .many_runs import Outcome, Stack, Tally, run_each
from .options import STDOUT, logger, shapes_for, tell_assumed
from .pictures import PictureSettings
from .rendering import lines_above_progress, room, say, show, working
from .saving import save
from .statistics import summary_of
from .verdicts import Comparison, Tolerance

if TYPE_CHECKING:
    from dovetail.optimizer import TensorSpec

    from .options import ModelFile

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line says; see `dovetail run --help`."""

    model: ModelFile
    backends: list[str] | None
    options: dict[str, dict[str, Any]] | None
    isolate: list[str] | None
    inputs: tuple[str, ...]
    output: Path | None
    shape: dict[str, tuple[int, ...]]
    threads: int | None
    limits: Limits | None
    timeout: float | None
    labels: Path | None
    label_offset: int
    expect: Path | None
    tolerance: float | None
    atol: float | None
    rtol: float | None
    least: float
    draw: Path | None
    rate: int | None
    top: int | None
    seed: int
    mean: tuple[float, ...] | None
    scale: tuple[float, ...] | None
    layout: str
    channels: str
    guarded: bool
    json_file: Path | None

    def check(self) -> None:
        """Refuse what contradicts itself, before anything is loaded.

        Raises:
            click.UsageError: Something does.
        """
        if self.output is not None and self.output.suffix.lower() not in (".npz", ".npy"):
            raise click.UsageError(f"--output {self.output}: the suffix must be .npz or .npy")
        if self.draw is not None and self.draw.suffix.lower() != ".png":
            raise click.UsageError(f"--draw {self.draw}: the suffix must be .png")
        bounds = {"--tolerance": self.tolerance, "--atol": self.atol, "--rtol": self.rtol}
        given = [name for name, value in bounds.items() if value is not None]
        if given and self.expect is None:
            raise click.UsageError(f"{given[0]} says how far outputs may be from expected ones: name these by --expect FILE")
        if self.tolerance is not None and len(given) > 1:
            raise click.UsageError(f"{given[0]} and {given[1]} exclude each other: one is of the output, one of each element")

    @property
    def bounds(self) -> Tolerance:
        """How far outputs may be from what is expected."""
        return Tolerance(self.tolerance, self.atol, self.rtol)

    def says(self, text: str) -> None:
        """Print a line, unless JSON goes where it would."""
        if self.json_file != STDOUT:
            say(text)

    def shows(self, table: Any) -> None:
        """Print a table, unless JSON goes there."""
        if self.json_file != STDOUT:
            show(table)

    def gives(self, document: Mapping[str, Any]) -> None:
        """Print or write JSON, if it is asked for."""
        text = json.dumps(document, indent=2)
        if self.json_file == STDOUT:
            click.echo(text)
        elif self.json_file is not None:
            self.json_file.write_text(text + "\n", encoding="utf-8")


def perform(request: Request) -> bool:
    """Load the network and run it; return whether all files ran and all outputs are as expected.

    Raises:
        DovetailError: The network cannot be loaded or run.
        click.ClickException: What was given does not fit it.
    """
    request.check()
    network = dovetail.parse(request.model, limits=request.limits)
    detector = find_detector(network)
    if request.draw is not None and detector is None:
        raise click.UsageError("--draw: no outputs of the network are those of a dovetail.DetectionPostProcess")
    names = ClassNames(network, detector, request.labels, request.label_offset)
    shapes = shapes_for(network, request.shape)
    load = partial(
        dovetail.load,
        network,
        request.backends,
        threads=request.threads,
        shapes=shapes or None,
        options=request.options,
        limits=request.limits,
        isolate=request.isolate,
    )
    with working(f"loading {request.model.name}") as told:
        loaded = load(progress=told)
    with loaded:
        specs = input_specs(loaded.inputs, shapes, network.meanings)
        many = find_many(specs, request.inputs)
        run = _Run(request, network, loaded, detector, names, specs, load)
        return run.one() if many is None else run.each(many)


class _Run:
    """A loaded network, and what is known of it.

    Args:
        request: What is asked for.
        network: The network.
        loaded: The same, loaded.
        detector: The detector that it ends with.
        names: Of its classes.
        specs: Its inputs.
        load: Loads it again, in another runtime.
    """

    def __init__(
        self,
        request: Request,
        network: Network,
        loaded: LoadedNetwork,
        detector: Detector | None,
        names: ClassNames,
        specs: Sequence[InputSpec],
        load: Callable[..., LoadedNetwork],
    ) -> None:
        self._request, self._network, self._loaded = request, network, loaded
        self._detector, self._names, self._specs, self._load = detector, names, specs, load
        self._scores = Scores(network, loaded, detector.outputs if detector is not None else ())
        self._expected: Expected | None = None
        self._is_checked = self._check(known_outputs(loaded))

    def _check(self, outputs: Sequence[TensorSpec] | None) -> bool:
        """Refuse what does not go with the outputs, better before a long run; say if that is done.

        Raises:
            click.UsageError: Something does not.
        """
        request = self._request
        if outputs is None:
            return False
        if request.expect is not None:
            self._expected = Expected.read(request.expect, outputs, [spec.name for spec in self._specs])
        if request.output is not None and request.output.suffix.lower() == ".npy" and len(outputs) != 1:
            raise click.UsageError(f"the network has {len(outputs)} outputs; write them to a .npz")
        shapes = {spec.name: (1, *spec.shape[1:]) if spec.shape else () for spec in outputs}
        if not any(isinstance(size, str) for shape in shapes.values() for size in shape):
            self._names.of({name: tuple(map(int, shape)) for name, shape in shapes.items()})
        return True

    def _feed(self, texts: Sequence[str]) -> Feeds:
        request = self._request
        settings = PictureSettings(request.mean, request.scale, request.layout, request.channels)
        return feeds_for(self._specs, texts, settings, request.seed, request.rate)

    def _run(self, arrays: Arrays) -> Arrays:
        results = self._loaded.run(arrays, timeout=self._request.timeout)
        self._is_checked = self._is_checked or self._check(self._loaded.outputs)
        return results

    def _labels(self, results: Arrays) -> dict[str, tuple[str, ...]]:
        return self._names.of({name: array.shape for name, array in results.items()})

    def _detections(self, results: Arrays, labels: Mapping[str, Sequence[str]]) -> list[Detection] | None:
        if self._detector is None:
            return None
        return detections(self._detector, results, labels.get(self._detector.classes, ()), self._request.least)

    def _compared(self, results: Arrays) -> Comparison | None:
        if self._expected is None:
            return None
        return self._expected.compare(self._loaded.outputs, results, self._network, self._request.bounds)

    def _dtypes(self) -> dict[str, str]:
        return {spec.name: spec.dtype.label for spec in self._loaded.outputs}

    def _tell_notes(self) -> None:
        for note in self._names.notes:
            logger.info("note: %s", note)

    # -- one run -----------------------------------------------------------------------------------

    def one(self) -> bool:
        """Run once and show all of it."""
        request = self._request
        feeds = self._feed(request.inputs)
        picture = next(iter(feeds.pictures.values())) if len(feeds.pictures) == 1 else None
        if request.draw is not None and picture is None:
            raise click.UsageError("--draw needs one picture among the inputs")
        tell_assumed(feeds.assumed)
        for name, note in feeds.notes.items():
            request.says(f"{name} <- {note}")
        with working(f"running {request.model.name}"):
            results = self._run(feeds.arrays)
        labels = self._labels(results)
        self._tell_notes()
        answers = self._scores.best(results, feeds.arrays, labels, 5 if request.top is None else request.top)
        found = self._detections(results, labels)
        dtypes = self._dtypes()
        request.shows(outputs_table(results, dtypes))
        for line in not_finite(results, dtypes):
            request.says(line)
        for one in answers:
            request.shows(answers_table(one))
        if found is not None:
            self._show_detections(found, picture)
        if request.output is not None:
            save(request.output, results)
            request.says(f"written to {request.output}")
        compared = self._compared(results)
        self._show_comparison(compared)
        if request.guarded:
            self._guarded(feeds.arrays, results)
        request.gives(
            {"model": str(request.model), "inputs": feeds.notes}
            | {"outputs": [_output(name, array, dtypes[name], answers) for name, array in results.items()]}
            | ({} if found is None else {"detections": [one.as_dict() for one in found]})
            | ({} if compared is None else {"expected": compared.as_dict()})
        )
        return compared is None or compared.is_within

    def _show_detections(self, found: Sequence[Detection], picture: Path | None) -> None:
        request = self._request
        if found:
            request.shows(detections_table(found, None if picture is None else picture_size(picture)))
        else:
            request.says(f"nothing was detected with a score of {request.least:g} or more")
        if request.draw is not None and picture is not None:
            draw(picture, found, request.draw)
            request.says(f"drawn to {request.draw}")

    def _show_comparison(self, compared: Comparison | None) -> None:
        if compared is not None:
            if compared.verdicts:
                self._request.shows(compared.table())
            for line in compared.sentences:
                self._request.says(line)

    def _guarded(self, feeds: Arrays, expected: Arrays) -> None:
        """Run between inaccessible pages, on either side.

        A kernel that touches one ends the process, after a sentence about it.

        Raises:
            ClickException: An output changes with what lies in memory that nobody wrote.
        """
        from dovetail import Guard, Runtime

        results = []
        for guard in (Guard("end", 0xFF), Guard("start", 0x5A)):
            with Runtime(guard=guard) as runtime, self._load(runtime=runtime) as loaded:
                results.append(loaded.run(feeds, timeout=self._request.timeout))
        for name in expected:
            if results[0][name].tobytes() != results[1][name].tobytes():
                raise click.ClickException(f"guarded: output {name!r} changes with what lies in memory that nobody wrote")
            if results[0][name].tobytes() != expected[name].tobytes():
                self._request.says(f"guarded: output {name!r} has other bits than in the plain run")
        self._request.says("guarded: no kernel left its tensors")

    # -- many files --------------------------------------------------------------------------------

    def each(self, many: ManyFiles) -> bool:
        """Run on each file, with a line for each, and sum up."""
        request = self._request
        for option, is_given in (("--draw", request.draw is not None), ("--guarded", request.guarded)):
            if is_given:
                raise click.UsageError(f"{option} takes one input, but there are {len(many.files)} files: name one of them")
        stack = Stack() if request.output is not None or request.expect is not None else None
        is_detector = self._detector is not None
        lines = Lines(many.files, "" if is_detector or request.top == 0 else self._scores.kind_of_first(), room())
        heading = [lines.heading] if lines.heading else []
        fed: Arrays | None = None

        def run(feeds: Feeds) -> Arrays:
            nonlocal fed
            if fed is None:
                tell_assumed(feeds.assumed)
            fed = feeds.arrays
            return self._run(fed)

        def understand(outcome: Outcome, results: Arrays) -> None:
            labels = self._labels(results)
            outcome.answers = self._scores.best(results, fed or {}, labels, 1 if request.top is None else request.top)
            outcome.detections = self._detections(results, labels)
            outcome.nan = nan_counts(results, self._dtypes())
            if stack is not None:
                stack.add(outcome.path, results)

        def told(outcome: Outcome) -> str:
            shown = [*heading, *lines.of(outcome)]
            heading.clear()  # which stands above the first
            return "\n".join(shown)

        with self._lines(len(many.files)) as tell:
            tally = run_each(
                many,
                self._feed,
                run,
                understand,
                lambda outcome: tell(told(outcome)),
                request.threads or default_runtime().threads,
                self._settled(many),
                is_resized=self._is_resized(many),
            )
        self._tell_notes()
        compared = self._finish(tally, stack)
        request.gives(
            {"model": str(request.model), **tally.as_dict()} | ({} if compared is None else {"expected": compared.as_dict()})
        )
        return not tally.failed and (compared is None or compared.is_within)

    def _settled(self, many: ManyFiles) -> set[str]:
        """Return the inputs that are alike for all files, of a shape that these do not decide."""
        if many.input is None:
            return set()
        beside = (spec for spec in self._specs if spec.name != many.input)
        return {spec.name for spec in beside if all(isinstance(size, int) for size in spec.shape)}

    def _is_resized(self, many: ManyFiles) -> bool:
        """Say whether pictures are brought to a size that the input has."""
        specs = [spec for spec in self._specs if many.input in (None, spec.name)]
        return all(isinstance(size, int) for spec in specs for size in spec.shape[1:])

    def _lines(self, count: int) -> AbstractContextManager[Callable[[str], None]]:
        if self._request.json_file == STDOUT:
            return nullcontext(lambda line: None)
        return lines_above_progress(f"running {self._request.model.name}", count)

    def _finish(self, tally: Tally, stack: Stack | None) -> Comparison | None:
        """Sum up, write and compare the outputs of all files that ran."""
        request = self._request
        for line in tally.sentences:
            request.says(line)
        if stack is None:
            return None
        if request.output is not None and stack.files:
            save(request.output, stack.stacked() if request.output.suffix.lower() == ".npy" else stack.with_files())
            request.says(f"written to {request.output}")
        if self._expected is None:
            return None
        outputs, bounds = self._loaded.outputs, request.bounds
        compared = self._expected.compare_files(outputs, stack.files, stack.stacked(), self._network, bounds)
        self._show_comparison(compared)
        return compared


def _output(name: str, array: npt.NDArray[Any], dtype: str, answers: Sequence[Answers]) -> dict[str, Any]:
    """Describe an output for JSON."""
    summary = summary_of(array, bfloat16=dtype == "bfloat16")
    document: dict[str, Any] = {
        "name": name,
        "shape": list(array.shape),
        "dtype": dtype,
        "minimum": summary.minimum,
        "mean": summary.mean,
        "maximum": summary.maximum,
        "not_finite": summary.not_finite,
    }
    return document | next((one.as_dict() for one in answers if one.output == name), {})
