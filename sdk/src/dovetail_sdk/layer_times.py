"""What a profile says of each layer of a network: time, work, and sums of both, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail import LoadedNetwork, Network, TensorInfo
    from dovetail.optimizer.macs import LayerWork
    from dovetail.runtime import LayerTime, Profile

_NO_WORK = ("dovetail.Wait", "dovetail.MemoryCopy", "dovetail.OutputCopy")


@dataclass(frozen=True, slots=True)
class MeasuredLayer:
    """One step of a run.

    Attributes:
        name, kind, backend: As in the plan.
        sources: Names of the layers of the original network that it stands for.
        outputs: What it produces; nothing for a wait.
        macs: Multiply-accumulates of one run, those of the layers that it stands for; None if these
            are not known.
        seconds: Median of its calls, on the device where it tells, else on the host.
        share: Its part of the sum of all `seconds`, 0 to 1.
        host_seconds, device_seconds: Medians of both; the latter is None if no device tells.
        minimum_seconds: Its fastest call.
        mean_seconds: The average call of the host.
        calls: How many were measured.
        enqueued: Whether `seconds` is what enqueueing takes, since its device does not tell more.
        copied_bytes: What it copies between memories.
        tuned: How it is computed, if that was chosen by measuring.
        device_source: Who measured `device_seconds`, in the backend's words, if it says so.
    """

    name: str
    kind: str
    backend: str
    sources: tuple[str, ...]
    outputs: tuple[TensorInfo, ...]
    macs: int | None
    seconds: float
    share: float
    host_seconds: float
    device_seconds: float | None
    minimum_seconds: float
    mean_seconds: float
    calls: int
    enqueued: bool
    copied_bytes: int
    tuned: str
    device_source: str = ""

    @property
    def gflops(self) -> float | None:
        """10^9 operations per second, two for each multiply-accumulate; None if not known."""
        return None if self.enqueued else gflops(self.macs, self.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's terms."""
        return {
            "name": self.name,
            "kind": self.kind,
            "backend": self.backend,
            "sources": list(self.sources),
            "outputs": [{"dtype": str(info.dtype), "shape": list(info.shape)} for info in self.outputs],
            "macs": self.macs,
            "gflops": self.gflops,
            "median_seconds": self.seconds,
            "share": self.share,
            "host_seconds": self.host_seconds,
            "device_seconds": self.device_seconds,
            "minimum_seconds": self.minimum_seconds,
            "mean_seconds": self.mean_seconds,
            "calls": self.calls,
            "copied_bytes": self.copied_bytes,
            "tuned": self.tuned,
            "device_source": self.device_source,
        }


@dataclass(frozen=True, slots=True)
class LayerSum:
    """Layers that have something in common.

    Attributes:
        name: Of the kind or of the backend.
        layers: How many.
        seconds: Sum of their medians.
        share: Of all layers, 0 to 1.
        macs: Sum of theirs; None if those of some are not known.
        gflops: 10^9 operations per second, as that of a layer.
    """

    name: str
    layers: int
    seconds: float
    share: float
    macs: int | None
    gflops: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return it in JSON's terms."""
        return {
            "name": self.name,
            "layers": self.layers,
            "median_seconds": self.seconds,
            "share": self.share,
            "macs": self.macs,
            "gflops": self.gflops,
        }


def gflops(macs: int | None, seconds: float) -> float | None:
    """Return 10^9 operations per second; None without multiply-accumulates or time."""
    return 2 * macs / seconds / 1e9 if macs and seconds > 0 else None


def work_of(network: Network, shapes: Mapping[str, Any]) -> list[LayerWork]:
    """Count the multiply-accumulates of a network's layers, as `dovetail show` does.

    Args:
        network: The original one.
        shapes: Sizes of what is open, by name.
    """
    from dovetail.optimizer.macs import LayerWork

    from .summary import summarize, with_known_shapes

    graph, reason = with_known_shapes(network, shapes)
    macs = {layer.name: layer.macs for layer in summarize(graph, reason).layers}
    return [LayerWork(layer.name, layer.sources, macs[layer.name]) for layer in graph if layer.name in macs]


def measured_layers(loaded: LoadedNetwork, profile: Profile, work: Sequence[LayerWork]) -> list[MeasuredLayer]:
    """Describe the layers of a profile, in the order in which they run.

    Args:
        loaded: What was profiled, with the plan of these runs its latest.
        profile: At least one run.
        work: That of the layers of the original network.
    """
    from dovetail.optimizer.macs import told_macs

    layers = {layer.name: layer for layer in loaded.optimized.graph}
    enqueued = {step.name for run in profile.each_run for step in run.steps if step.queue is not None}
    times = [time for time in profile.layers if time.calls]
    total = sum(time.median_cost_ns for time in times) or 1.0
    told = {time.name: told_macs(layers[time.name]) for time in times if time.name in layers}
    return [
        MeasuredLayer(
            time.name,
            time.kind,
            time.backend,
            time.sources,
            tuple(slot.known_info for slot in layers[time.name].outputs) if time.name in layers else (),
            macs,
            time.median_cost_ns / 1e9,
            time.median_cost_ns / total,
            time.median_ns / 1e9,
            None if time.device_median_ns is None else time.device_median_ns / 1e9,
            time.least_ns / 1e9,
            time.mean_ns / 1e9,
            time.calls,
            time.device_ns is None and time.name in enqueued,
            time.copied_bytes,
            time.tuned,
            time.device_source,
        )
        for time, macs in zip(times, macs_of_steps(times, work, told), strict=True)
    ]


def macs_of_steps(times: Sequence[LayerTime], work: Sequence[LayerWork], told: Mapping[str, int]) -> list[int | None]:
    """Give each step the multiply-accumulates of the layers that it stands for, each layer once.

    Args:
        times: What was measured.
        work: That of the layers of the original network.
        told: Multiply-accumulates that the kinds of steps tell of, by name of the step: these
            multiply. Where none tells, the slowest of those that may does.
    """
    from dovetail.optimizer.macs import Worker, shared_out

    computing = [number for number, time in enumerate(times) if time.kind not in _NO_WORK]
    workers = [
        Worker(time.name, time.sources, told.get(time.name, 0), time.median_cost_ns)
        for time in (times[number] for number in computing)
    ]
    found: list[int | None] = [0] * len(times)
    for number, macs in zip(computing, shared_out(work, workers), strict=True):
        found[number] = macs
    return found


def sums_by(layers: Iterable[MeasuredLayer], name: Callable[[MeasuredLayer], str]) -> list[LayerSum]:
    """Sum up layers that have the same name, such as `lambda layer: layer.kind`, slowest first."""
    groups: dict[str, list[MeasuredLayer]] = {}
    for layer in layers:
        groups.setdefault(name(layer), []).append(layer)
    sums = [sum_of(group, several) for group, several in groups.items()]
    return sorted(sums, key=lambda one: -one.seconds)


def sum_of(name: str, layers: Sequence[MeasuredLayer]) -> LayerSum:
    """Sum up some layers."""
    seconds = sum(layer.seconds for layer in layers)
    works = [layer.macs for layer in layers]
    macs = None if None in works else sum(work for work in works if work is not None)
    known = not any(layer.enqueued and layer.macs != 0 for layer in layers)
    return LayerSum(
        name,
        len(layers),
        seconds,
        sum(layer.share for layer in layers),
        macs,
        gflops(macs, seconds) if known else None,
    )
