"""The mistakes of a first hour: each is named, with what to do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import dovetail

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "digits.onnx"
X = np.zeros((1, 1, 8, 8), np.float32)


def of_one_node(node: onnx.NodeProto, opsets: dict[str, int], *weights: TensorProto) -> bytes:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], list(weights))
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    shutil.copy(DIGITS, made / "digits.onnx")
    shutil.copy(DIGITS, made / "digits.pt")
    (made / "notes.onnx").write_text("these are notes\n", encoding="utf-8")
    (made / "cut.onnx").write_bytes(DIGITS.read_bytes()[: DIGITS.stat().st_size // 2])
    apart = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    apart.external_data.add(key="location", value="weights.bin")
    (made / "apart.onnx").write_bytes(of_one_node(helper.make_node("Add", ["x", "w"], ["y"]), {"": 17}, apart))
    (made / "future.onnx").write_bytes(of_one_node(helper.make_node("Relu", ["x"], ["y"]), {"": 99}))
    own = helper.make_node("Frobnicate", ["x"], ["y"], domain="my.ops")
    (made / "own.onnx").write_bytes(of_one_node(own, {"": 17, "my.ops": 1}))
    return made


def load(path: Path = DIGITS, **arguments: Any) -> dovetail.LoadedNetwork:
    return dovetail.load(path, **{"backends": "CpuRef", **arguments})


def run(feeds: dict[str, Any]) -> Callable[[Path], Any]:
    def both(folder: Path) -> Any:
        with load() as net:
            return net.run(feeds)

    return both


def unloaded(folder: Path) -> Any:
    net = load()
    net.unload()
    return net.run({"image": X})


MISTAKES: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "no such file": (lambda f: load(f / "digts.onnx"), ("digts.onnx", "does not exist", "did you mean digits.onnx?")),
    "a folder": (lambda f: load(f), ("is a folder", "digits.onnx")),
    "no model": (lambda f: load(f / "notes.onnx"), ("notes.onnx", "is not an ONNX model", "download")),
    "half a download": (lambda f: load(f / "cut.onnx"), ("cut.onnx", "is not an ONNX model", "is complete")),
    "another format": (lambda f: load(f / "digits.pt"), ("no parser is installed for .pt", ".onnx", ".tflite")),
    "a new operator set": (lambda f: load(f / "future.onnx"), ("operator set 99", "newest known", "export")),
    "an operator of one's own": (lambda f: load(f / "own.onnx"), ("Frobnicate (my.ops", "@dovetail_onnx.operator(")),
    "weights left behind": (lambda f: load(f / "apart.onnx"), ("'w'", "weights.bin", "folder of the model")),
    "a wrong input name": (run({"img": X}), ("'image' is missing", "no input 'img'", "its inputs are 'image'")),
    "an input too few": (run({}), ("'image' is missing",)),
    "an input too many": (run({"image": X, "mask": X}), ("no input 'mask'", "its inputs are 'image'")),
    "float64": (run({"image": X.astype(np.float64)}), ("'image' is float64", "expected float32", "image.astype(np.float32)")),
    "no batch": (run({"image": X[0]}), ("[1, 8, 8]", "[N, 1, 8, 8]", "image[np.newaxis]")),
    "channels last": (run({"image": X.transpose(0, 2, 3, 1)}), ("[1, 8, 8, 1]", "image.transpose(0, 3, 1, 2)")),
    "channels last, no batch": (run({"image": X[0].transpose(1, 2, 0)}), ("image.transpose(2, 0, 1)[np.newaxis]",)),
    "another size": (run({"image": np.zeros((1, 1, 9, 8), np.float32)}), ("[1, 1, 9, 8]", "[N, 1, 8, 8]")),
    "a path for an array": (run({"image": "seven.png"}), ("'image' is 'str'", "NumPy array")),
    "a backend misspelt": (lambda f: load(backends="CpuReff"), ("CpuReff is not installed", "did you mean CpuRef?")),
    "a provider": (lambda f: load(backends=["CUDAExecutionProvider"]), ("CUDAExecutionProvider", "ready: ")),
    "an unknown option": (lambda f: load(options={"CpuRef": {"thread": 2}}), ("CpuRef", "no option 'thread'")),
    "no threads": (lambda f: load(threads=0), ("threads=0", "1 or more")),
    "a size of nothing": (lambda f: load(shapes={"M": 3}), ("'M'", "known: N, image")),
    "run after unload": (unloaded, ("'digits' was unloaded", "load it again")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_what_to_do(mistake: str, folder: Path) -> None:
    make, expected = MISTAKES[mistake]
    with pytest.raises(dovetail.DovetailError) as caught:
        make(folder)
    for text in expected:
        assert text in str(caught.value)
    assert caught.value.hint
    assert len(str(caught.value)) < 600


def awaited(call: Callable[[dovetail.LoadedNetwork], Any]) -> Callable[[], Any]:
    def made() -> Any:
        async def wait() -> Any:
            with load() as net:
                return await call(net)

        return asyncio.run(wait())

    return made


def executed(code: str) -> Callable[[], Any]:
    return lambda: exec(code, {"MODEL": str(DIGITS), "X": X})


ELSEWHERE: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "a session to import": (
        executed("from dovetail import InferenceSession"),
        ImportError,
        ("cannot import name 'InferenceSession' from 'dovetail'", "dovetail.load(path) returns a network that is ready"),
    ),
    "a session": (executed("import dovetail as ort; ort.InferenceSession(MODEL)"), AttributeError, ("dovetail.load(path)",)),
    "options of a session": (
        executed("import dovetail as ort; ort.SessionOptions()"),
        AttributeError,
        ("'SessionOptions'", "give threads= to dovetail.load"),
    ),
    "an interpreter": (
        executed("import dovetail_tflite as tflite; tflite.Interpreter(model_path=MODEL)"),
        AttributeError,
        ("'dovetail_tflite' has no attribute 'Interpreter'", "dovetail.load(path)"),
    ),
    "an interpreter to import": (
        executed("from dovetail_tflite import Interpreter"),
        ImportError,
        ("cannot import name 'Interpreter'", "dovetail.load(path)"),
    ),
    "a core": (
        executed("import dovetail as ov; ov.Core().compile_model(MODEL, 'CPU')"),
        AttributeError,
        ("'Core'", "dovetail.load(path) needs nothing before it"),
    ),
    "providers of a runtime": (
        executed("import dovetail; dovetail.Runtime().load(MODEL, providers=['CPUExecutionProvider'])"),
        dovetail.OptionError,
        ("Runtime.load has no argument 'providers'", "give backends=[...]", "for dovetail.load, not for Runtime.load"),
    ),
    "an input as an argument": (
        lambda: load().run(image=X),  # type: ignore[call-arg]  # which is what is tested
        dovetail.OptionError,
        ("run has no argument 'image'", "net.run({'image': array})"),
    ),
    "the names of outputs as another library has them": (
        lambda: load().run({"image": X}, output_names=["probabilities"]),  # type: ignore[call-arg]  # see above
        dovetail.OptionError,
        ("run has no argument 'output_names'", "outputs=[name]"),
    ),
    "no arrays": (
        lambda: load().run(outputs=["probabilities"]),
        dovetail.InputError,
        ("input 'image' is missing", "its inputs are 'image'"),
    ),
    "a command as a function": (
        executed("import dovetail; dovetail.quantize(MODEL)"),
        AttributeError,
        ("'quantize'", "`dovetail quantize model.onnx --calibration"),
    ),
    "a backend as a name of the package": (
        executed("import dovetail; dovetail.load(MODEL, dovetail.CpuRef)"),
        AttributeError,
        ("'CpuRef'", "dovetail.load(path, backends=['CpuRef'])"),
    ),
    "the names of outputs first": (
        lambda: load().run(None, {"image": X}),  # type: ignore[arg-type, call-arg]  # which is what is tested
        TypeError,
        ("run() takes one argument by position", "write net.run({'image': ...})"),
    ),
    "the names of outputs first, awaited": (
        awaited(lambda net: net.run_async(["probabilities"], {"image": X})),  # type: ignore[arg-type]  # see above
        TypeError,
        ("run_async() takes one argument", "write await net.run_async({'image': ...}, outputs=['probabilities'])"),
    ),
}


@pytest.mark.parametrize("mistake", ELSEWHERE)
def test_what_other_libraries_have_is_answered_by_what_to_write(mistake: str) -> None:
    make, kind, expected = ELSEWHERE[mistake]
    with pytest.raises(kind) as caught:
        make()
    for text in expected:
        assert text in str(caught.value)
    assert len(str(caught.value)) < 600


def test_what_the_page_tells_is_tried(root: Path) -> None:
    page = (root / "docs" / "errors.md").read_text("utf-8")
    assert f"makes {len(MISTAKES) + len(ELSEWHERE)} of them" in page


def test_what_the_hint_proposes_works() -> None:
    image = np.random.default_rng(1).random((1, 1, 8, 8), np.float32)
    with load() as net:
        wanted = net.run({"image": image})["probabilities"]
        for wrong in (image[0], image.transpose(0, 2, 3, 1), image[0].transpose(1, 2, 0)):
            with pytest.raises(dovetail.InputError) as caught:
                net.run({"image": wrong})
            proposed = str(caught.value.hint).rpartition(": ")[2]
            made = eval(proposed, {"image": wrong, "np": np})
            np.testing.assert_array_equal(net.run({"image": made})["probabilities"], wanted)
