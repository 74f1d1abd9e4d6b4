"""The pages of `show`, `explain` and `diff`: what they hold, and that a browser shows it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from dovetail import Network, optimize
from dovetail_sdk.pages import Edge, Metric, Node, Page, write_page
from dovetail_sdk.pages.network import network_page
from dovetail_sdk.pages.page import page_text
from dovetail_sdk.pages.placement import placement_page
from dovetail_sdk.summary import summarize, with_known_shapes

Invoke = Callable[..., Result]

HOSTILE = "</script><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">\u2028'&amp;"


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def branching(blocks: int = 3) -> Network:
    """A network with branches, weights that are worked out from constants, and hostile names."""
    rng, net = np.random.default_rng(1), Network("net <b>bold</b>")
    x = net.input("x", (1, 4, 8, 8))
    for number in range(blocks):
        weights = net.activation(net.constant(rng.normal(size=(4, 4, 3, 3)).astype(np.float32)), "tanh")
        y = net.convolution2d(x, weights, padding=1, name=f"block{number}/convolution {HOSTILE}")
        x = net.addition(x, net.relu(y, name=f"block{number}/relu"), name=f"block{number}/add")
    net.output(net.softmax(x, name="probabilities"), "y")
    return net


def page_of(net: Network) -> Page:
    graph, reason = with_known_shapes(net, {})
    return network_page(graph, summarize(graph, reason), ["a line"])


def test_a_page_shows_the_network_and_not_its_constants() -> None:
    net = branching()
    document = data_of(page_text(page_of(net)))
    names = {node["name"] for node in document["nodes"]}
    assert {"x", "y", "probabilities", "block0/relu"} <= names
    assert not any("tanh" in node["title"] for node in document["nodes"])
    ids = {node["id"] for node in document["nodes"]}
    assert {(one["source"], one["target"]) for one in document["edges"]} >= {("x", "block0/add"), ("block0/relu", "block0/add")}
    assert all({one["source"], one["target"]} <= ids for one in document["edges"])
    convolution = next(node for node in document["nodes"] if node["name"] == f"block0/convolution {HOSTILE}")
    assert convolution["title"] == "convolution 3x3"
    assert convolution["values"] == {"macs": 4 * 4 * 9 * 64, "parameters": 144}
    assert dict(convolution["details"])["constants"] == "weights: float32[4, 4, 3, 3], by tanh of float32[4, 4, 3, 3]"


def test_nothing_in_a_model_becomes_markup() -> None:
    net = branching()
    text = page_text(page_of(net))
    assert "<img" not in text
    assert text.count("<script") == 3
    assert text.count("</script") == 3
    assert "<title>network &#x27;net &lt;b&gt;bold&lt;/b&gt;&#x27;</title>" in text
    assert "Content-Security-Policy\" content=\"default-src 'none'" in text
    assert "\u2028" not in text


def test_numbers_that_are_not_finite_are_left_out(tmp_path: Path) -> None:
    page = Page("t", "c", [], ["g"], "g", [Node("a", "g", "a", values={"n": float("nan")})], [], [Metric("n", "n")])
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_page(page, tmp_path / "page.html")
    network_page_of_nan = page_of(branching(1))
    assert network_page_of_nan.nodes


def test_a_placement_says_where_and_why(fussy: str, adder: Path) -> None:
    import dovetail

    net = dovetail.parse(adder)
    placement = optimize(net, [fussy, "CpuRef"]).placement
    page = placement_page(with_known_shapes(net, {})[0], placement, {row.name: 1.5 for row in placement.layers})
    by_name = {node.name: node for node in page.nodes}
    assert by_name["add"].group == "Fussy"
    assert by_name["add"].marks == []
    assert by_name["negate"].group == "CpuRef"
    assert by_name["negate"].marks == ["fallback"]
    assert "it only adds" in dict(by_name["negate"].details)["what backends before it said"]
    assert by_name["negate"].values["milliseconds"] == 1.5
    assert page.metrics[0].key == "milliseconds"


def test_times_and_work_are_told_once() -> None:
    net = branching()
    placement = optimize(net, "CpuRef").placement
    times = {row.name: float(number + 1) for number, row in enumerate(placement.layers)}
    page = placement_page(with_known_shapes(net, {})[0], placement, times)
    assert sum(node.values.get("milliseconds", 0) for node in page.nodes) == sum(times.values())
    assert sum(node.values.get("macs", 0) for node in page.nodes) == sum(row.macs for row in placement.layers)


@pytest.mark.parametrize("command", ["show", "explain", "diff"])
def test_commands_write_pages(dovetail: Invoke, adder: Path, tmp_path: Path, command: str) -> None:
    file = tmp_path / "page.html"
    options = {"show": (), "explain": ("-b", "CpuRef"), "diff": ("-b", "CpuRef", "--against", "CpuRef")}[command]
    plain = dovetail(command, adder, *options, *(("--layers",) if command == "diff" else ()))
    result = dovetail(command, adder, *options, "--html", file)
    assert (result.exit_code, result.stdout) == (0, plain.stdout), result.stderr
    document = data_of(file.read_text("utf-8"))
    assert {"add", "negate"} <= {node["name"] for node in document["nodes"]}
    before = adder.read_bytes()
    wrong = dovetail(command, adder, *options, "--html", adder)
    assert wrong.exit_code == 2
    assert "must end in .html" in wrong.stderr
    assert adder.read_bytes() == before
    missing = dovetail(command, adder, *options, "--html", tmp_path / "nowhere" / "page.html")
    assert missing.exit_code == 2
    assert "there is no folder" in missing.stderr


def test_a_benchmark_shows_times(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = dovetail("benchmark", adder, "-b", "CpuRef", "--iterations", "3", "--html", file)
    assert result.exit_code == 0, result.output
    document = data_of(file.read_text("utf-8"))
    times = {node["name"]: node["values"].get("milliseconds", 0) for node in document["nodes"]}
    assert times["add"] > 0
    assert times["negate"] > 0
    assert "a run takes" in document["summary"][1]


def test_a_difference_is_seen(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    dovetail("diff", adder, "-b", "CpuRef", "--against", "CpuRef", "--html", file)
    document = data_of(file.read_text("utf-8"))
    assert {node["group"] for node in document["nodes"] if node["name"] in ("add", "negate")} == {"CpuRef"}
    assert all(node["values"]["max_abs"] == 0 for node in document["nodes"] if node["name"] in ("add", "negate"))


# -- in a browser ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    driver = shutil.which("chromedriver")
    if driver is None:
        pytest.skip("needs a browser and its driver: Debian's package chromium-driver")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,850"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_script_timeout(60)
    opened.set_network_conditions(offline=True, latency=0, throughput=0)
    yield opened
    opened.quit()


class Shown:
    """A page in a browser, once it is drawn."""

    def __init__(self, browser: Any, page: Page, folder: Path) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        file = folder / "page.html"
        write_page(page, file)
        self.browser = browser
        browser.get(file.as_uri())
        WebDriverWait(browser, 60).until(
            lambda one: one.execute_script("return document.documentElement.dataset.ready") == "yes"
        )

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements("css selector", selector)
        return found

    def one(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def node(self, id: str) -> Any:
        return self.one(f'.node[data-id="{id}"]')

    def script(self, text: str) -> Any:
        return self.browser.execute_script(f"return {text}")


@pytest.mark.slow
def test_a_browser_draws_searches_zooms_and_tells(browser: Any, tmp_path: Path) -> None:
    net = branching()
    page = page_of(net)
    shown = Shown(browser, page, tmp_path)
    assert browser.title == "network 'net <b>bold</b>'"
    assert len(shown.all(".node")) == len(page.nodes)
    assert len(shown.all(".edge")) == len(page.edges)
    boxes = {one.get_attribute("data-id"): one.find_element("css selector", "rect").rect for one in shown.all(".node")}
    for edge in page.edges:  # what reads stands below what it reads
        assert boxes[edge.target]["y"] >= boxes[edge.source]["y"] + boxes[edge.source]["height"]

    shown.node("block1/relu").click()
    told = shown.one("#details").text
    for expected in ("ReLU", "block1/relu", "dovetail.Activation, version 1", "reads", "is read by", "block1/add"):
        assert expected in told
    next(link for link in shown.all("#details a") if link.text == "block1/add").click()
    assert "addition" in shown.one("#details").text

    search = shown.one("#search")
    search.send_keys("relu block2")
    assert shown.one("#count").text == "1 found"
    search.send_keys("\n")
    assert shown.one("#count").text == "1 of 1"
    assert "chosen" in shown.node("block2/relu").get_attribute("class")
    assert "dim" in shown.node("block0/relu").get_attribute("class")
    search.clear()
    search.send_keys("nothing like it")
    assert shown.one("#count").text == "none found"
    search.clear()
    search.send_keys("a")
    search.send_keys("\ue00c")  # Escape
    assert shown.one("#count").text == ""

    before = shown.script("document.querySelector('#picture > g').getAttribute('transform')")
    shown.one("#in").click()
    after = shown.script("document.querySelector('#picture > g').getAttribute('transform')")
    scales = [float(re.search(r"scale\(([\d.]+)\)", text)[1]) for text in (before, after)]  # type: ignore[index]
    assert scales[1] == pytest.approx(1.3 * scales[0])
    shown.one("#fit").click()
    stage, frame = shown.one("#picture > g").rect, shown.one("main").rect
    assert frame["y"] <= stage["y"]
    assert stage["y"] + stage["height"] <= frame["y"] + frame["height"]

    assert shown.script("performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_browser_sorts_the_table_and_colours_by_numbers(browser: Any, tmp_path: Path) -> None:
    values = {"a": 0.25, "b": 4e-6, "c": 1234567.0}
    nodes = [Node(key, "g", f"does {key}", f"layer {key}", values={"n": value}) for key, value in values.items()]
    page = Page("numbers", "c", [], ["g"], "g", nodes, [Edge("a", "b"), Edge("b", "c")], [Metric("n", "time, ms")])
    shown = Shown(browser, page, tmp_path)
    shown.script(
        "(document.getElementById('colour').value = 'n', document.getElementById('colour').dispatchEvent(new Event('change')))"
    )
    fills = [shown.script(f"document.querySelectorAll('.node')[{i}].style.getPropertyValue('--fill')") for i in range(3)]
    shares = [int(re.search(r"(\d+)%", fill)[1]) for fill in fills]  # type: ignore[index]
    assert shares == [0, 0, 100]
    shown.one("#table").click()
    assert [cell.text for cell in shown.all("tbody td:last-child")] == ["0.25", "4.00e-6", "1,234,567"]
    shown.all("th button")[-1].click()
    assert [cell.text for cell in shown.all("tbody td:nth-child(2)")] == ["layer c", "layer a", "layer b"]
    shown.all("th button")[-1].click()
    assert [cell.text for cell in shown.all("tbody td:nth-child(2)")] == ["layer b", "layer a", "layer c"]
    shown.all("tbody tr")[0].click()
    assert "does b" in shown.one("#details").text
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_browser_draws_deep_networks(browser: Any, tmp_path: Path) -> None:
    nodes = [Node(f"n{i}", "g", "step", f"n{i}") for i in range(3000)]
    edges = [Edge(f"n{i}", f"n{i + 1}") for i in range(2999)] + [Edge(f"n{i}", f"n{i + 7}") for i in range(0, 2990, 5)]
    shown = Shown(browser, Page("deep", "c", [], ["g"], "g", nodes, edges), tmp_path)
    assert shown.script("document.querySelectorAll('.node').length") == 3000
    shown.one("#search").send_keys("n2999\n")
    assert shown.node("n2999").is_displayed()
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_browser_draws_layers_called_like_members_of_objects(browser: Any, tmp_path: Path) -> None:
    names = ["constructor", "__proto__", "hasOwnProperty", "toString", "valueOf"]
    edges = [Edge(*pair) for pair in itertools.pairwise(names)]
    shown = Shown(browser, Page("odd", "c", [], ["g"], "g", [Node(one, "g", one, one) for one in names], edges), tmp_path)
    assert len(shown.all(".node")) == len(names)
    shown.node("__proto__").click()
    assert "__proto__" in shown.one("#details").text
    assert browser.get_log("browser") == []


@pytest.mark.slow
def test_a_browser_draws_no_layers_at_all(browser: Any, tmp_path: Path) -> None:
    net = Network("nothing")
    net.output(net.input("x", (1,)), "y")
    shown = Shown(browser, page_of(net), tmp_path)
    assert len(shown.all(".node")) == 2
    assert Shown(browser, Page("empty", "c", [], [], "g", [], []), tmp_path).all(".node") == []
    assert browser.get_log("browser") == []
