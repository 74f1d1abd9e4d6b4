"""Programs that are kept for the next process."""

KEPT = """
import logging
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")
with load(options={"GpuAcc": {"artefacts": given["folder"]}}) as net:
    runs(net)
print("built", count("builds"), "restored", count("restores"))
"""


def test_a_second_process_builds_nothing(kept_scene):
    assert "built 2 restored 0" in kept_scene(KEPT)  # the least program, and the layer's
    assert "built 0 restored 1" in kept_scene(KEPT)


HEARD = """
def heard():
    net = dovetail.Network("two")
    x = net.relu(net.input("x", (4, 6)))
    for _ in range(2):
        x = net.softmax(x, axis=1)
    net.output(x, "y")
    found, options = [], {"GpuAcc": {"artefacts": given["folder"]}}
    with dovetail.load(net, ["GpuAcc"], options=options, progress=lambda *one: found.append(one)):
        pass
    return found

print(heard())
assert heard() == []
"""


def test_who_listens_hears_how_many_programs_are_built_of_how_many(kept_scene):
    first, second = (
        f"('GpuAcc', {part}, 'builds program {n} of 2: {name}')"
        for part, n, name in ((0.0, 1, "elementwise/chain"), (0.5, 2, "reduction/softmax"))
    )
    assert kept_scene(HEARD) == f"[{first}, {second}]\n"
    assert kept_scene(HEARD) == "[]\n"


def test_another_driver_builds_anew_and_why_is_said(kept_scene):
    kept_scene(KEPT)
    said = kept_scene(KEPT, "driver=2.0")
    assert "built 2 restored 0" in said
    assert "2.0" in said
    assert "1.0" in said
    assert "built 0 restored 1" in kept_scene(KEPT, "driver=2.0")
    assert "built 0 restored 1" in kept_scene(KEPT)


def test_binaries_that_the_driver_refuses_are_built_again(kept_scene):
    kept_scene(KEPT)
    assert "built 1 restored 0" in kept_scene(KEPT, "stale")  # that the compiler works is known
    assert "built 0 restored 1" in kept_scene(KEPT)
