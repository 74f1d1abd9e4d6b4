"""Quantize a network: all of it in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

import dovetail
from dovetail import DType, LoadedNetwork, Network
from dovetail.graph.descriptor import Constant, Input, Output

from ..differences import Difference, real_values
from ..pairs import groups, is_quantized
from .calibration import Method, Observed, Step, observe
from .correction import corrections
from .planning import Plan, planned, result_of
from .preparing import prepared
from .report import LayerRow, Report, worst_first
from .rewriting import Numbers, finished, rewritten
from .samples import Arrays, Samples
from .schemes import Scheme, readers_of_weights, with_smaller_weights

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from dovetail import Limits

GROUP_BYTES = 256 << 20
"""Bytes of tensors that one run shows: all of a network at once might not fit."""

COMPARED = 16
"""Samples at most that are run to see what quantization costs."""

Rewrite = Callable[[Network], tuple[Network, dict[str, str]]]
Progress = Callable[[str, int], "AbstractContextManager[Step]"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for.

    Attributes:
        scheme: Types of integers and floats.
        method: How ranges are chosen.
        dtype: Of tensors between layers.
        correct: Whether biases are corrected.
        keep: Patterns of names of layers that stay in float.
        keep_worst: So many more, those that cost most if quantized alone.
    """

    scheme: Scheme = Scheme.INT8
    method: Method = field(default_factory=Method)
    dtype: DType = DType.INT8
    correct: bool = True
    keep: tuple[str, ...] = ()
    keep_worst: int = 0


class Quantizer:
    """A network that is to be quantized, and the samples that tell how.

    Args:
        network: As parsed.
        shapes: Sizes of the network's symbols and inputs, as the samples have them.
        samples: To calibrate with.
        settings: What is asked for.
        backends: Where the networks are run.
        progress: Called with what is done and the number of its steps.
        limits: What loading may take.

    Raises:
        click.UsageError: A pattern names no layer that could be quantized.
        click.ClickException: There is nothing to quantize, or nothing to tell by the samples.
        DovetailError: The network is refused.
    """

    def __init__(
        self,
        network: Network,
        shapes: Mapping[str, Any],
        samples: Samples,
        settings: Settings,
        backends: Sequence[str] | None,
        progress: Progress,
        limits: Limits | None = None,
    ) -> None:
        if is_quantized(network):
            raise click.ClickException(
                f"network {network.name!r} is quantized already; give the float model that it was made of"
            )
        if network.states:
            raise click.ClickException(
                f"network {network.name!r} remembers {', '.join(map(repr, network.states))} between runs, which ONNX cannot say"
            )
        self._network = network
        self._samples = samples
        self._settings = settings
        self._progress = progress
        self._load = partial(dovetail.load, backends=backends, limits=limits)
        self._graph = prepared(network, shapes)
        self._candidates = self._all_candidates()
        if not self._candidates:
            raise click.ClickException(f"network {network.name!r} has no layer that {settings.scheme} is for")
        self.kept = self._kept_by_name()
        self._alone: dict[str, float] = {}

    def _all_candidates(self) -> list[str]:
        if self._settings.scheme.is_integer:
            return list(self._planned().computing)
        found = (
            reader.name for readers in readers_of_weights(self._graph, self._settings.scheme).values() for reader in readers
        )
        return list(dict.fromkeys(found))

    def _planned(self, kept: frozenset[str] = frozenset()) -> Plan:
        return planned(self._graph, kept, moving=self._settings.dtype is not DType.INT16)

    def _kept_by_name(self) -> frozenset[str]:
        kept: set[str] = set()
        for pattern in self._settings.keep:
            found = [layer.name for layer in self._graph.layers if fnmatchcase(layer.name, pattern)]
            if not found:
                raise click.UsageError(
                    f"--keep {pattern}: there is no such layer; those that could be quantized are "
                    f"{', '.join(self._candidates[:8])}{', ...' if len(self._candidates) > 8 else ''}"
                )
            kept.update(found)
        return frozenset(kept)

    # -- quantizing --------------------------------------------------------------------------------

    def run(self) -> tuple[Callable[[Mapping[str, int]], Network], Report]:
        """Quantize.

        Returns:
            What makes the quantized network for other sizes of its open symbols, and what it costs.
        """
        with self._load(self._graph) as net:
            rewrite = self._rewriting(net)
            quantized, names = rewrite(self._graph)
            report = self._report(net, quantized, names)
        return (lambda sizes: finished(rewrite(prepared(self._network, sizes))[0])), report

    def _rewriting(self, net: LoadedNetwork) -> Rewrite:
        """Return what rewrites the network, or the same network of other sizes."""
        whole = self._integer_rewriting(net) if self._settings.scheme.is_integer else self._smaller_weights(net)
        if self._settings.keep_worst:
            self._measure_alone(net, whole)
            ranked = sorted(self._alone, key=lambda name: self._alone[name])
            self.kept |= {*ranked[: self._settings.keep_worst]}
        if not self._results():
            raise click.ClickException("no layer would be left to quantize; keep fewer of them")
        return whole(self.kept)

    def _integer_rewriting(self, net: LoadedNetwork) -> Callable[[frozenset[str]], Rewrite]:
        """Calibrate once, for all layers; what is kept later needs no more than was seen."""
        settings, seen = self._settings, self._observed(net, self._planned())

        def whole(kept: frozenset[str]) -> Rewrite:
            smaller = self._planned(kept)
            tensors = seen.quantizations(smaller, settings.method, settings.dtype)
            biases = corrections(self._graph, smaller, tensors, seen.means) if settings.correct else {}
            return lambda graph: rewritten(graph, smaller, Numbers(settings.dtype, tensors, biases))

        return whole

    def _smaller_weights(self, net: LoadedNetwork) -> Callable[[frozenset[str]], Rewrite]:
        """Store weights in fewer bits; what rounding to bytes moves is taken off the biases."""
        settings, biases = self._settings, dict[str, npt.NDArray[np.float64]]()
        if settings.scheme is Scheme.DYNAMIC and settings.correct:
            plan = self._planned()
            seen = self._observed(net, plan)
            tensors = seen.quantizations(plan, settings.method, settings.dtype)
            biases = corrections(self._graph, plan, tensors, seen.means)
        return lambda kept: partial(with_smaller_weights, scheme=settings.scheme, kept=kept, biases=biases)

    def _observed(self, net: LoadedNetwork, plan: Plan) -> Observed:
        parts, method = groups(plan.tensors, self._sizes(), GROUP_BYTES), self._settings.method
        with self._progress("calibrating", len(parts) * len(self._samples) * method.passes) as step:
            return observe(net, plan, self._samples, parts, method, step)

    def _measure_alone(self, net: LoadedNetwork, whole: Callable[[frozenset[str]], Rewrite]) -> None:
        """Quantize each layer alone, and see what that does to the outputs."""
        measured = [name for name in self._measurable() if name not in self.kept]
        samples = self._compared_samples()
        outputs = [spec.name for spec in net.outputs]
        expected = [net.run(dict(read())) for read in samples]
        with self._progress("measuring layers", len(measured)) as step:
            for name in measured:
                others = frozenset(self._candidates) - {name}
                quantized, _ = whole(others | self.kept)(self._graph)
                total = Difference()
                with self._load(quantized) as other:
                    for read, wanted in zip(samples, expected, strict=True):
                        found = other.run(dict(read()))
                        for spec, output in zip(net.outputs, outputs, strict=True):
                            total.add(real_values(wanted[output], spec), real_values(found[output], spec))
                self._alone[name] = total.snr
                step()

    def _measurable(self) -> list[str]:
        """Name the layers that can be quantized alone; others follow their neighbours."""
        return self._planned().weighted if self._settings.scheme.is_integer else self._candidates

    # -- telling -----------------------------------------------------------------------------------

    def _compared_samples(self) -> Samples:
        count = min(COMPARED, len(self._samples))
        return [self._samples[index * len(self._samples) // count] for index in range(count)]

    def _report(self, net: LoadedNetwork, quantized: Network, names: Mapping[str, str]) -> Report:
        samples = self._compared_samples()
        results = self._results()
        rows = {
            name: LayerRow(name, self._graph.layer(name).kind.rpartition(".")[2], Difference(), self._alone.get(name))
            for name in self._candidates
            if name in results
        }
        tensors = list(dict.fromkeys(results[name] for name in rows))
        differences: dict[str, Difference] = {tensor: Difference() for tensor in tensors}
        outputs = {spec.name: Difference() for spec in net.outputs}
        parts = groups(tensors, self._sizes(), GROUP_BYTES)
        with self._load(quantized) as other, self._progress("comparing", (len(parts) + 1) * len(samples)) as step:
            for read in samples:
                _compare(net, other, read(), {name: name for name in outputs}, outputs)
                step()
                for part in parts:
                    _compare(net, other, read(), {tensor: names[tensor] for tensor in part}, differences)
                    step()
        _refuse_blind(outputs)
        for name, row in rows.items():
            row.difference = differences[results[name]]
        passing = [layer.name for layer in quantized.layers if layer.name.endswith(".integers")]
        return Report(
            scheme=str(self._settings.scheme),
            samples=len(self._samples),
            compared=len(samples),
            layers=worst_first([*rows.values()]),
            outputs=outputs,
            kept=tuple(name for name in self._candidates if name not in results),
            passing=len(passing),
            real=self._count_of_real(len(passing)),
            bytes_before=self._graph.bytes_of_constants(),
            bytes_after=quantized.bytes_of_constants(),
        )

    def _count_of_real(self, passing: int) -> int:
        """Count the layers that compute with real numbers; a clamp is part of an integer layer."""
        computing = sum(not isinstance(layer.descriptor, Input | Output | Constant) for layer in self._graph.layers)
        if not self._settings.scheme.is_integer:
            return computing
        integers = self._planned(self.kept).computing
        clamps = sum(result_of(self._graph.layer(name)) is not self._graph.layer(name).output for name in integers)
        return computing - len(integers) - clamps - passing

    def _results(self) -> dict[str, str]:
        """Return the tensor that each layer's error is measured at."""
        if self._settings.scheme.is_integer:
            return self._planned(self.kept).computing
        return {name: self._graph.layer(name).outputs[0].name for name in self._candidates if name not in self.kept}

    def _sizes(self) -> dict[str, int]:
        return {slot.name: slot.known_info.nbytes for layer in self._graph.layers for slot in layer.outputs}


def _refuse_blind(outputs: Mapping[str, Difference]) -> None:
    """Refuse samples by which neither scales nor their cost are known."""
    for name, difference in outputs.items():
        if difference.is_blind:
            raise click.ClickException(
                f"output {name!r} is finite in no sample: what --calibration holds is beyond what the network computes with"
            )


def _compare(
    net: LoadedNetwork, other: LoadedNetwork, feeds: Arrays, names: Mapping[str, str], differences: Mapping[str, Difference]
) -> None:
    """Run both networks once and add up how far tensors are apart."""
    expected, found = net.run(dict(feeds), outputs=list(names)), other.run(dict(feeds), outputs=list(names.values()))
    for name, twin in names.items():
        differences[name].add(expected[name].astype("float64"), found[twin].astype("float64"))


@contextmanager
def silent(what: str, total: int) -> Iterator[Step]:
    """Show no progress."""
    yield lambda: None
