"""What crosses between host and device: nothing where they share memory."""

import pytest


@pytest.mark.parametrize(
    ("faults", "crossed"), [("unified", 0), ("unified shadow", 0), ("unified refused", 3 * 96), ("", 2 * 96)]
)
def test_no_byte_is_copied_where_memory_is_shared(scene, faults, crossed):
    """Not by a command: what a driver does for memory that it does not share itself is its own.

    Of memory that it refuses there are copies: of both tensors as they are before the run, and of
    the result.
    """
    scene(
        """
def copied():
    return count("bytes_in") + count("bytes_out")

x, y = feeds["x"], np.zeros((4, 6), np.float32)
with load() as net:
    crossed = given["crossed"]
    assert len(net.placement.copies) == (0 if "unified" in faults else 2)
    runs(net)
    for _ in range(3):
        before = copied()
        runs(net)
        assert copied() - before == crossed, (copied() - before, crossed)
    binding = net.bind({"x": x}, {"y": y})
    for turn in range(1, 4):
        x[...], y[...], before = np.arange(24).reshape(4, 6) + turn, 0, copied()
        binding.run()
        np.testing.assert_array_equal(x, y)
        assert copied() - before == crossed, (copied() - before, crossed)
    binding.close()
nothing_is_left()
""",
        faults,
        {"crossed": crossed},
    )


@pytest.mark.parametrize("faults", ["unified", "unified shadow", "unified refused"])
def test_inputs_overlap(scene, faults):
    """The double's kernel gives its first input."""
    scene(
        """
net = dovetail.Network("overlap")
a, b = net.input("a", (64,)), net.input("b", (64,))
net.output(net.addition(a, b), "y")
x = np.arange(1, 81, dtype=np.float32)
with dovetail.load(net, ["GpuAcc"]) as loaded:
    for first, second in ((x[:64], x[16:]), (x[16:], x[:64]), (x[:64], x[:64])):
        for turn in range(3):
            x += 1
            np.testing.assert_array_equal(loaded.run({"a": first, "b": second})["y"], first)
        binding = loaded.bind({"a": first, "b": second})
        for turn in range(3):
            x += 1
            np.testing.assert_array_equal(binding.run()["y"], first)
        binding.close()
nothing_is_left()
""",
        faults,
    )


@pytest.mark.parametrize("faults", ["", "slow"])
def test_large_tensors_cross_in_chunks(scene, faults):
    scene(
        """
cross_in_chunks()
with load() as net:
    for _ in range(5):
        before = count("bytes_in"), count("bytes_out")
        runs(net)
    assert (count("bytes_in") - before[0], count("bytes_out") - before[1]) == (96, 96)
time.sleep(0.05)  # of a driver's thread
nothing_is_left()
""",
        faults,
    )
