"""Loading: what happens when a backend is asked for."""

from __future__ import annotations

import pickle
import signal
import sys
import threading
from typing import Any

import pytest
from fakes.distributions import GOOD, Site, failure_of, row_of

from dovetail.contract.backend_id import BackendId
from dovetail.discovery.registry import BackendState, Registry
from dovetail.ground.errors import BackendError, BackendUnavailableError, DovetailError, ErrorCode


def test_backend_is_imported_when_asked_for_and_once(site: Site) -> None:
    package = site.add("Fake")
    registry = Registry()
    backend = registry.get("Fake")
    assert backend.id == "Fake"
    assert registry.get("Fake") is backend
    assert row_of(registry, "Fake").state is BackendState.LOADED
    assert package in sys.modules


def test_threads_that_ask_at_once_get_the_same_backend(site: Site) -> None:
    counting = GOOD + "\n    created = 0\n\n    def __init__(self):\n        import time\n        time.sleep(0.05)\n"
    site.add("Fake", source=counting + "        type(self).created += 1\n")
    registry = Registry()
    barrier = threading.Barrier(8)
    got: list[Any] = []

    def ask() -> None:
        barrier.wait()
        got.append(registry.get("Fake"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len({id(backend) for backend in got}) == 1
    assert got[0].created == 1


def test_listing_does_not_wait_for_a_backend_that_is_being_imported(site: Site) -> None:
    source = "import fake_gate\nfake_gate.entered.set()\nassert fake_gate.proceed.wait(30)\n" + GOOD
    site.add("Fake", source=source)
    (site.folder / "fake_gate.py").write_text("import threading\nentered = threading.Event()\nproceed = threading.Event()\n")
    import fake_gate  # type: ignore[import-not-found]  # the module written above

    site.packages.add("fake_gate")
    registry = Registry()
    thread = threading.Thread(target=registry.get, args=("Fake",))
    registry.rows()
    thread.start()
    try:
        assert fake_gate.entered.wait(30)
        assert row_of(registry, "Fake").state is BackendState.AVAILABLE
    finally:
        fake_gate.proceed.set()
        thread.join()
    assert row_of(registry, "Fake").state is BackendState.LOADED


@pytest.mark.parametrize(
    ("statement", "cause", "text"),
    [
        ("raise ImportError('libacme.so.3 is missing')", ImportError, "libacme.so.3 is missing"),
        ("raise SystemExit(3)", SystemExit, "SystemExit: 3"),
        ("assert False", AssertionError, "AssertionError"),
        ("class Odd(BaseException): pass\nraise Odd('odd')", BaseException, "Odd: odd"),
        ("def deeper(): deeper()\ndeeper()", RecursionError, "RecursionError"),
        ("class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute", Exception, "cannot be printed"),
        ("syntax error", SyntaxError, "SyntaxError"),
        ("", AttributeError, "Backend"),
    ],
)
def test_import_that_fails_is_a_row_and_an_error_with_its_cause(
    site: Site, statement: str, cause: type[BaseException], text: str
) -> None:
    site.add("Fake", source=statement, version="3.2")
    site.add("FakeOther")
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert isinstance(error.__cause__, cause)
    assert text in error.message
    assert "fake-fake 3.2, fake_fake:Backend" in error.message
    assert error.hint
    assert error.details["phase"] == "import"
    row = row_of(registry, "Fake")
    assert row.state is BackendState.BROKEN
    assert text in row.reason
    assert registry.get("FakeOther").id == "FakeOther"


def test_second_request_for_a_broken_backend_says_the_same(site: Site) -> None:
    site.add("Fake", source="import fake_counter\nfake_counter.imports += 1\nraise OSError('no')")
    (site.folder / "fake_counter.py").write_text("imports = 0\n")
    site.packages.add("fake_counter")
    registry = Registry()
    first, second = failure_of(registry, "Fake"), failure_of(registry, "Fake")
    assert first.message == second.message
    assert first.__cause__ is second.__cause__
    assert first is not second
    assert sys.modules["fake_counter"].imports == 1


def test_ctrl_c_during_an_import_is_not_swallowed(site: Site) -> None:
    site.add("Fake", source="import signal\nsignal.raise_signal(signal.SIGINT)\n" + GOOD)
    registry = Registry()
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        registry.get("Fake")
    assert row_of(registry, "Fake").state is BackendState.AVAILABLE
    assert signal.getsignal(signal.SIGINT) is handler


def test_interrupt_that_the_backend_raises_itself_is_a_row(site: Site) -> None:
    site.add("Fake", source="raise KeyboardInterrupt")
    registry = Registry()
    assert failure_of(registry, "Fake").details["reason_code"] == "IMPORT_FAILED"
    assert row_of(registry, "Fake").state is BackendState.BROKEN


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (GOOD.replace("{id!r}", "'FakeOther'"), "its id is 'FakeOther'"),
        ("Backend = None", "not an IBackend"),
        ("Backend = 7", "an instance of builtins.int"),
        ("class Backend: id = 'Fake'", "fake_fake.Backend, which is not an IBackend"),
        ("from dovetail import IBackend\nclass Backend(IBackend): id = 'Fake'", "lacks create_workload_factory"),
    ],
)
def test_offer_that_breaks_the_contract(site: Site, source: str, text: str) -> None:
    site.add("Fake", source=source)
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.code == ErrorCode.BACKEND_CONTRACT
    assert text in error.message
    assert error.details["distribution"] == "fake-fake"
    assert row_of(registry, "Fake").state is BackendState.BROKEN


@pytest.mark.parametrize("phase", ["create", "id"])
def test_code_of_the_backend_that_raises_is_reported_with_its_phase(site: Site, phase: str) -> None:
    body = {
        "create": "    def __init__(self):\n        raise SystemExit('no')\n",
        "id": "    @property\n    def id(self):\n        raise ZeroDivisionError('no')\n",
    }[phase]
    site.add("Fake", source=GOOD + "\n" + body)
    error = failure_of(Registry(), "Fake")
    assert error.code == ErrorCode.BACKEND_BROKEN
    assert error.details["phase"] == phase
    assert error.__cause__ is not None


def test_missing_driver_is_a_state_and_may_come_later(site: Site) -> None:
    site.add(
        "Fake",
        source="from dovetail import BackendUnavailableError\nready = False\n"
        + GOOD
        + "\n    def __init__(self):\n        if not ready:\n"
        "            raise BackendUnavailableError('libOpenCL.so.1 is missing', hint='install it', state='driver_missing')\n",
    )
    registry = Registry()
    error = failure_of(registry, "Fake")
    assert error.details["state"] == "driver_missing"
    row = row_of(registry, "Fake")
    assert (row.state, row.reason, row.hint) == (BackendState.DRIVER_MISSING, "libOpenCL.so.1 is missing", "install it")
    sys.modules["fake_fake"].ready = True  # type: ignore[attr-defined]  # the generated module
    assert registry.get("Fake").id == "Fake"
    row = row_of(registry, "Fake")
    assert (row.state, row.reason) == (BackendState.LOADED, "")


def test_absent_backend_is_named_with_what_is_ready_and_what_is_close(site: Site) -> None:
    site.add("CpuFake")
    site.add("FakeBroken", manifest="{")
    error = failure_of(Registry(), "cpufaek")
    assert isinstance(error, BackendUnavailableError)
    assert error.code == ErrorCode.BACKEND_UNAVAILABLE
    assert error.details["state"] == "not_installed"
    assert "CpuFake" in error.details["ready"]
    assert "FakeBroken" not in error.details["ready"]
    assert error.hint == "did you mean CpuFake?"
    assert "CpuFake" in error.message


def test_absent_backend_is_not_mistaken_for_one_of_another_name(site: Site) -> None:
    """A beginning means all that begin so; what has few letters in common means none."""
    site.add("FpuAxx")
    site.add("FpuFake")
    assert failure_of(Registry(), "FPU").hint == "did you mean FpuAxx or FpuFake?"
    assert failure_of(Registry(), "fpuaxx").hint == "did you mean FpuAxx?"
    assert failure_of(Registry(), "fuda").hint == "pip install the distribution that offers it"


def test_malformed_id_is_refused() -> None:
    assert failure_of(Registry(), "no id").code == ErrorCode.BACKEND_ID_INVALID


def test_several_ids_in_one_text_are_answered_by_a_list() -> None:
    with pytest.raises(BackendError) as caught:
        BackendId("CpuAcc,CpuRef")
    assert caught.value.code == ErrorCode.BACKEND_ID_INVALID
    assert "as a list" in caught.value.hint


def test_every_error_is_of_the_family(site: Site) -> None:
    site.add("Fake", source="raise SystemExit")
    error = failure_of(Registry(), "Fake")
    assert isinstance(error, DovetailError)
    assert pickle.loads(pickle.dumps(error)).code == error.code
