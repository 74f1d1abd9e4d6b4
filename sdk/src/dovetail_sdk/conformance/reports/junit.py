"""The report for build servers: JUnit's XML, one test case per check and per case that failed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ..results import CheckResult, KnownDeviation, Report, Status

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(report: Report) -> str:
    """Return the report as XML text."""
    suites = ElementTree.Element("testsuites", name=f"conformance of {report.backend}")
    for level in sorted({result.check.level for result in report.results}):
        results = [result for result in report.results if result.check.level == level]
        suite = ElementTree.SubElement(suites, "testsuite", name=f"level {int(level)}: {level.name.lower()}")
        entries = [entry for result in results for entry in _entries(result)]
        suite.extend(entries)
        suite.set("tests", str(len(entries)))
        suite.set("failures", str(sum(entry.find("failure") is not None for entry in entries)))
        suite.set("skipped", str(sum(entry.find("skipped") is not None for entry in entries)))
        suite.set("errors", "0")
        suite.set("time", f"{sum(result.seconds for result in results):.3f}")
    if report.deviations:
        entries = [_of_deviation(known) for known in report.deviations]
        suite = ElementTree.SubElement(suites, "testsuite", name="declared deviations", failures="0", errors="0")
        suite.extend(entries)
        suite.set("tests", str(len(entries)))
        suite.set("skipped", str(len(entries)))
    if report.objection:  # a build server must not show green for a run that proves nothing
        suite = ElementTree.SubElement(suites, "testsuite", name="the run as a whole", tests="1", failures="1", errors="0")
        entry = ElementTree.SubElement(suite, "testcase", classname="run", name="something ran")
        ElementTree.SubElement(entry, "failure", message=_clean(report.objection))
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _entries(result: CheckResult) -> list[ElementTree.Element]:
    check = result.check
    module, _, name = check.id.partition(".")
    entry = ElementTree.Element("testcase", classname=module, name=name, time=f"{result.seconds:.4f}")
    if result.status is Status.FAILED:
        failure = ElementTree.SubElement(entry, "failure", message=_clean(result.text.partition("\n")[0]))
        failure.text = _clean(f"{result.text}\nTroubleshooting: {check.troubleshooting}")
    elif result.status is not Status.PASSED:
        ElementTree.SubElement(entry, "skipped", message=_clean(f"{result.status}: {result.text}"))
    entries = [entry]
    for case in result.cases if result.status is Status.FAILED else ():
        one = ElementTree.Element("testcase", classname=f"{module}.{name}", name=_clean(case.id))
        ElementTree.SubElement(one, "failure", message=_clean(case.text.partition("\n")[0])).text = _clean(case.text)
        entries.append(one)
    return entries


def _of_deviation(known: KnownDeviation) -> ElementTree.Element:
    """Return an entry that is neither green nor red, with the cases that differ."""
    entry = ElementTree.Element("testcase", classname="deviation", name=_clean(known.described))
    cases = "\n".join(f"{case.id}: {case.text}" for case in known.cases.values())
    ElementTree.SubElement(entry, "skipped", message=_clean(f"{known.state}: {len(known.cases)} cases")).text = _clean(cases)
    return entry


def _clean(text: str) -> str:
    """Drop what XML cannot hold: what a crashing process prints may be anything."""
    return _NOT_XML.sub("?", text)
