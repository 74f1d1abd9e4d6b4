"""The double itself, and the kinds of device that it can be."""

import pytest


def test_the_double_runs_a_network_and_nothing_leaks(scene):
    scene("""
for _ in range(3):
    with load() as net:
        runs(net)
        runs(net)
        assert count("buffer") and count("kernel")
    nothing_is_left()
assert count("context") == 1
assert count("builds") == 2  # of the least program, and of the layer's
assert count("violations") == 0
""")


@pytest.mark.parametrize("faults", ["", "no_queued"])
def test_the_device_of_the_double_tells_when_it_worked(scene, faults):
    """Its clock began an hour before the host's."""
    scene(
        """
with load() as net:
    runs(net)
    assert count("event") == 0, "nobody asked for times"
    queues = count("queue")
    sizes = (count("bytes_in"), count("bytes_out"))
    with net.profiling() as profile:
        for _ in range(3):
            runs(net)
    assert (count("bytes_in") - sizes[0], count("bytes_out") - sizes[1]) == (3 * 96, 3 * 96)
    assert count("queue") == queues + 1, "one that takes times, which is kept"
    runs(net)
    assert count("event") == 0
    for run in profile.each_run:
        assert len(run.spans) == 3, run.spans
        for span in run.spans:
            assert run.times[0][0] - 5e6 < span.begin and span.end < run.times[-1][1] + 5e6, (run.times, span)
    assert [copy.device_ns for copy in profile.copies] == [3000, 3000]
    assert net.placement.crossing == (96, 96)
nothing_is_left()
""",
        faults,
    )


@pytest.mark.parametrize("faults", ["slow", "unified", "unified slow", "unified shadow slow", "unified refused slow"])
def test_other_devices_run_too(scene, faults):
    scene(
        """
with load() as net:
    for _ in range(20):
        runs(net)
time.sleep(0.05)  # of a driver's thread
nothing_is_left()
""",
        faults,
    )
