"""Test fault 38 of docs/faults.md: manifests that are false."""

import json
import os
import time

import numpy as np
import pytest
from faults.building import compile_c, manifest

import dovetail

MANIFESTS = {
    "empty": "",
    "cut short": '{"id": "Faulty"',
    "deep": "[" * 10_000,
    "deep within": '{"id": "Faulty", "claims": ' + '{"a":' * 10_000,
    "key twice": '{"id": "Faulty", "id": "Faulty"}',
    "NaN": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": NaN'),
    "infinite": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": -Infinity'),
    "real rank": json.dumps(manifest("Faulty", rank=1.5)),
    "large rank": json.dumps(manifest("Faulty", rank=10**12)),
    "endless rank": json.dumps(manifest("Faulty")).replace('"rank": 1', '"rank": ' + "9" * 9999),
    "text": '"Faulty"',
    "null": "null",
    "missing": '{"id": "Faulty"}',
    "other": json.dumps(manifest("Other")),
    "escape codes": json.dumps(manifest("Faulty", description="\u001b[2J")),
    "escape codes in claims": json.dumps(manifest("Faulty", claims={"dovetail.\u001b[31mRed": []})),
    "escape codes in a list": json.dumps(manifest("Faulty", deviations={"a.B": [{"why": "\u009b2J"}]})),
    "half a character": json.dumps(manifest("Faulty", claims={"dovetail.\ud800": []})),
    "abi": json.dumps(manifest("Faulty", abi=[0])),
    "negative abi": json.dumps(manifest("Faulty", abi=[0, -1])),
    "library elsewhere": json.dumps(manifest("Faulty", library="../libacme.so")),
    "module": json.dumps(manifest("Faulty", module="no name")),
    "claims": json.dumps(manifest("Faulty", claims=[])),
    "no UTF-8": b'{"id": "\xff"}',
}

CLAIMS = {
    "bound beyond floats": {"input.rank": {"max": 10**400}},
    "multiple beyond floats": {"input.rank": {"multiple_of": 10**400}},
    "value beyond floats": {"input.rank": 10**400},
    "axis of many digits": {"input." + "9" * 5000: 1},
    "axis of two signs": {"input.--5": 1},
    "limit of two signs": {"input.rank": {"max": "input.--5"}},
    "nothing between": {"input.rank": {"min": 5, "max": 1}},
    "what Python has": {"__class__": 1},
}


def claiming(where, **changes):
    return manifest("Faulty", claims={"dovetail.Activation": [{"dtypes": ["float32"], "where": where}]}, **changes)


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", CLAIMS)
def test_claims_that_no_layer_can_be_held_against(scene, kind):
    folder = scene.add(source="raise SystemExit('imported')", content=claiming(CLAIMS[kind]))
    scene.refused("BAD_MANIFEST", where=folder)


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifest_of_a_package(scene, kind):
    folder = scene.add(source="raise SystemExit('imported')", content=None)
    content = MANIFESTS[kind]
    path = folder / "dovetail-backend.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    scene.refused("BAD_MANIFEST", where=path)


@pytest.mark.fault(38)
def test_manifest_of_a_hundred_megabytes(scene):
    path = scene.add(source="raise SystemExit('imported')") / "dovetail-backend.json"
    os.truncate(path, 100 << 20)
    begun = time.process_time()
    assert scene.row().code == "BAD_MANIFEST"
    assert time.process_time() - begun < 1


@pytest.mark.fault(38)
@pytest.mark.parametrize("kind", ["empty", "cut short", "key twice", "NaN", "missing", "escape codes", "abi", "claims"])
def test_manifest_in_a_library(scene, built, kind):
    path = scene.put(built("faulty", fault="ABORT", content=MANIFESTS[kind]))
    row = scene.row_of(path)
    assert (row.code, row.step, row.path) == ("BAD_MANIFEST", "list", str(path))


@pytest.mark.fault(38)
def test_manifest_in_a_library_is_capped(scene, tmp_path):
    (tmp_path / "large.c").write_text(
        'asm(".section .dovetail,\\"a\\"\\n.fill 70000, 1, 0x20\\n.byte 0\\n.text");\nint nothing(void) { return 0; }\n'
    )
    path = scene.put(compile_c(tmp_path / "large.so", tmp_path / "large.c"))
    assert "larger than 65536" in scene.row_of(path).reason


@pytest.mark.fault(38)
def test_claims_are_looked_at_before_the_backend_is_loaded(scene):
    scene.add(
        source="raise SystemExit('imported')", content=manifest("Faulty", claims={"dovetail.Add": [{"dtypes": ["float33"]}]})
    )
    error = scene.refused("BAD_MANIFEST")
    assert "dtypes" in error.message


@pytest.mark.fault(38)
def test_a_bound_beyond_floats_hides_no_other_backend(scene):
    """A default load, which looks at every backend for the CPU, goes on to the next one."""
    scene.add(source="raise SystemExit('imported')", content=claiming(CLAIMS["bound beyond floats"], device="cpu", rank=1000))
    assert scene.registry.default_preferences()[0] == "Faulty"
    network = dovetail.Network("net")
    network.output(network.relu(network.input("x", (2,))), "y")
    with dovetail.load(dovetail.optimize(network, registry=scene.registry)) as loaded:
        assert loaded.run({"x": np.float32([-1, 2])})["y"].tolist() == [0, 2]


@pytest.mark.fault(38)
def test_library_without_a_manifest_is_no_backend(scene, built):
    scene.put(built("faulty", content=None))
    (report,) = scene.registry.folders()
    assert report.skipped == {"faulty.so": "carries no manifest, so it is no backend"}
