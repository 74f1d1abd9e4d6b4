"""What a server counts of its requests, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Counts:
    """Requests by model and status, and how long those took that were answered."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.in_flight = 0

    def note(self, model: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests[model, status] += 1
        if status == 200:
            self._buckets.setdefault(model, [0] * (len(_BOUNDS) + 1))[bisect_left(_BOUNDS, seconds)] += 1
            self._seconds[model] += seconds

    def text(self, versions: Iterable[tuple[str, int]]) -> str:
        """Return all of it, with the version of each model that is loaded."""
        lines = ["# TYPE dovetail_requests_total counter"]
        for (model, status), count in sorted(self._requests.items()):
            lines.append(f'dovetail_requests_total{{model="{model}",status="{status}"}} {count}')
        lines.append("# TYPE dovetail_request_seconds histogram")
        for model, buckets in sorted(self._buckets.items()):
            total = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), buckets, strict=True):
                total += count
                lines.append(f'dovetail_request_seconds_bucket{{model="{model}",le="{bound}"}} {total}')
            lines.append(f'dovetail_request_seconds_sum{{model="{model}"}} {self._seconds[model]:.6f}')
            lines.append(f'dovetail_request_seconds_count{{model="{model}"}} {total}')
        lines.append("# TYPE dovetail_model_version gauge")
        lines += [f'dovetail_model_version{{model="{model}"}} {version}' for model, version in versions]
        lines += ["# TYPE dovetail_requests_in_flight gauge", f"dovetail_requests_in_flight {self.in_flight}"]
        lines += ["# TYPE process_resident_memory_bytes gauge", f"process_resident_memory_bytes {resident_bytes()}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Return how much memory this process holds (VmRSS)."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0
