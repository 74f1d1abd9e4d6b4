"""What is said of noise, from files of a machine that is made up, and from times that are known."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pytest

from dovetail_sdk.benchmark_tables import noise_lines
from dovetail_sdk.machine_state import MachineState, disturbances
from dovetail_sdk.statistics import Timing

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = MachineState(100.0, 0.3, 5.0, 50.0, 0.0, 0, (3e9, 3e9))
LATER = replace(QUIET, at=110.0, own_seconds=24.0, busy_seconds=69.5)
STEADY = np.array([0.010, 0.0101] * 50)


def found(
    latencies: np.ndarray = STEADY, before: MachineState = QUIET, after: MachineState = LATER, requests: int = 1
) -> dict[str, str]:
    timing = Timing.of(latencies)
    told = disturbances(before, after, timing, latencies, threads=2, requests=requests, cpus=4)
    assert all(one.advice for one in told)
    return {one.what: one.text for one in told}


def machine(root: Path, *, cpus: list[str], clocks: list[int] | None = None) -> Path:
    """Write the files of a machine below a folder."""
    (root / "proc").mkdir()
    (root / "proc/stat").write_text("\n".join(["cpu  9 9 9 9 9 9 9 9 0 0", *cpus, "intr 5", ""]))
    (root / "proc/loadavg").write_text("2.50 1.00 0.50 3/400 1234\n")
    (root / "proc/cpuinfo").write_text("".join(f"processor : {n}\ncpu MHz\t\t: {n + 1}000.5\n\n" for n in range(len(cpus))))
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cpu.stat").write_text("usage_usec 12\nnr_periods 9\nnr_throttled 4\n")
    for number, clock in enumerate(clocks or []):
        folder = root / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(f"{clock}\n")
    return root


def test_state_is_that_of_the_usable_cpus(tmp_path: Path) -> None:
    """A cpu line has user, nice, system, idle, iowait, irq, softirq, steal, guest, guest nice."""
    lines = ["cpu0 100 20 3 7000 500 4 5 60 0 0", "cpu1 1 1 1 1 1 1 1 1 1 1", "cpu2 200 0 0 9000 0 0 0 40 0 0"]
    root = machine(tmp_path, cpus=lines, clocks=[1_200_000, 9_000_000, 3_400_000])
    begin = perf_counter(), process_time()
    state = MachineState.now(root, {0, 2})
    assert state.busy_seconds == pytest.approx((100 + 20 + 3 + 4 + 5 + 60 + 200 + 40) / TICKS)
    assert state.stolen_seconds == pytest.approx(100 / TICKS)
    assert (state.load, state.throttled, state.clocks) == (2.5, 4, (1.2e9, 3.4e9))
    assert begin[0] <= state.at <= perf_counter()
    assert begin[1] <= state.own_seconds <= process_time()


def test_clocks_without_cpufreq_are_those_of_cpuinfo(tmp_path: Path) -> None:
    root = machine(tmp_path, cpus=["cpu0 1 1 1 1 1 1 1 1", "cpu1 1 1 1 1 1 1 1 1"])
    assert MachineState.now(root, {1}).clocks == (2000.5e6,)


def test_a_system_that_tells_nothing(tmp_path: Path) -> None:
    state = MachineState.now(tmp_path, {0})
    told = (state.load, state.busy_seconds, state.stolen_seconds, state.throttled, state.clocks)
    assert told == (None, None, None, None, ())
    assert found(before=state, after=replace(state, at=state.at + 10)) == {}


def test_a_quiet_machine_is_not_mentioned() -> None:
    assert found() == {}
    assert noise_lines([]) == []


def test_this_machine_is_read() -> None:
    if not Path("/proc/stat").exists():
        pytest.skip("this system has no /proc/stat")
    state = MachineState.now()
    assert state.busy_seconds is not None
    assert state.busy_seconds > 0
    assert state.load is not None


def test_spread() -> None:
    slow = np.array([0.010] * 80 + [0.015] * 20)
    np.random.default_rng(1).shuffle(slow)
    assert found(slow)["spread"] == "the times of runs are spread: the 90th percentile is 1.50 times the median"
    few = np.array(([0.010] * 49 + [0.810]) * 2)
    assert found(few) == {"spread": "the times of runs are spread: the mean is 2.60 times the median"}
    assert "spread" not in found(slow, requests=2), "several wait for each other"
    assert found(slow[:9]) == {}, "too few to tell"


def test_drift() -> None:
    slower = np.array([0.010] * 50 + [0.012] * 50)
    assert found(slower)["drift"].startswith("runs drift: their median became 1.20 times slower")
    assert "1.20 times faster" in found(slower[::-1])["drift"]
    assert found(np.array([0.010] * 50 + [0.0109] * 50)) == {}


def test_others() -> None:
    """In 10 s on 4 CPUs this process had 19 s, others 8."""
    assert found(after=replace(LATER, busy_seconds=77.0)) == {"others": "others took 0.8 of 4 usable CPUs meanwhile"}
    short = replace(LATER, at=100.4, busy_seconds=77.0)
    assert found(after=short) == {}, "the system counts in hundredths of a second"


def test_load_counts_where_nothing_better_is_known() -> None:
    before = replace(QUIET, load=5.24)
    assert found(before=before) == {}
    short = replace(LATER, at=100.4)
    assert found(before=before, after=short) == {"load": "the load average was 5.2 before, on 4 usable CPUs"}


def test_stolen_throttled_and_clocks() -> None:
    assert found(after=replace(LATER, stolen_seconds=4.0)) == {
        "stolen": "the hypervisor gave 10% of the CPUs' time to other machines"
    }
    assert found(after=replace(LATER, throttled=3)) == {"throttled": "the container had used up its share of the CPUs, 3 times"}
    assert found(after=replace(LATER, clocks=(2.1e9, 1e9))) == {"clock": "the clock of the CPUs went from 3.00 to 2.10 GHz"}
    assert found(after=replace(LATER, clocks=(0.8e9, 2.95e9))) == {}, "an idle CPU is slow"


def test_each_advice_is_printed_once() -> None:
    noise = [{"text": "one", "advice": "stop it; go on"}, {"text": "two", "advice": "go on"}]
    heading, *lines = noise_lines(noise)
    assert heading.startswith("noisy: ")
    assert lines == ["  one", "  two", "  -> stop it", "  -> go on"]
