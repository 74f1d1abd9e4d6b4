"""The pages on loading and on faults tell what the code and the tests do."""

import re
from pathlib import Path

import pytest

from dovetail import ErrorCode
from dovetail.discovery.reasons import ReasonCode
from dovetail.ground import settings
from dovetail_cl import devices
from dovetail_npu_vsi.ovx import places

ROOT = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| (?P<first>[^|]+?) \| (?P<second>[^|]+?) \| (?P<third>[^|]+?) \| (?P<fourth>[^|]+?) \|", re.MULTILINE)


def test_every_reason_code_is_documented_as_it_is():
    page = (ROOT / "docs" / "loading.md").read_text("utf-8")
    documented = {m["first"].strip("`"): (m["second"], m["third"], m["fourth"]) for m in ROW.finditer(page)}
    for code in ReasonCode:
        assert documented[str(code)] == (str(code.step), code.meaning, code.remedy)
    listed = re.findall(r"^\| `([A-Z_]+)` \| (?:list|place|abi|bytes|probe|load|device) \|", page, re.MULTILINE)
    assert listed == [str(code) for code in ReasonCode]


def test_every_environment_variable_is_documented():
    page = (ROOT / "docs" / "loading.md").read_text("utf-8")
    names = [value for value in vars(settings).values() if isinstance(value, str) and value.startswith("DOVETAIL_")]
    names += [devices.LIBRARY, places.SDK, places.OVXLIB, places.OPENVX]
    assert len(names) == 12
    assert set(re.findall(r"^\| `(DOVETAIL_\w+)` \|", page, re.MULTILINE)) == set(names)


def faults_of_tests():
    text = "".join(path.read_text("utf-8") for path in sorted((ROOT / "tests").glob("**/test_*.py")))
    kit = (ROOT / "sdk" / "tests" / "test_conformance_stress.py").read_text("utf-8")
    found = re.findall(r"mark\.fault\((\d+)\)", text) + re.findall(r'"[A-Z]\w+": (\d+),', kit)
    return {int(number) for number in found}


def test_every_fault_of_the_table_has_a_test():
    page = (ROOT / "docs" / "faults.md").read_text("utf-8")
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert numbers == sorted(set(numbers))
    assert set(range(1, 65)) <= set(numbers)
    assert set(numbers) <= faults_of_tests()


@pytest.mark.parametrize(
    "code", sorted(set(re.findall(r"`([A-Z]+_[A-Z_]+)`", (ROOT / "docs" / "faults.md").read_text("utf-8"))))
)
def test_every_code_of_the_table_exists(code):
    known = {*ReasonCode.__members__, *ErrorCode.__members__, "DOVETAIL_BACKEND_PATH", "DOVETAIL_LOCK"}
    assert code in known
