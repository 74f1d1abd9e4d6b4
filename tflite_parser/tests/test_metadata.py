"""What a file says of its inputs and outputs: the scaling of pictures, names of classes."""

import io
import zipfile

import pytest
import tflite_making as making

from dovetail.graph.meaning import Meaning
from dovetail_tflite import parse

LABELS = "cat\ndog\nparrot, that is ä\n"


def model_of(input_tree, output_tree):
    model = making.Model()
    x, y = model.main.input("x", "float32", (1, 3)), model.main.tensor("y", "float32", (1, 3))
    model.main.operator("ABS", [x], [y])
    model.main.output(y)
    tree = {"subgraph_metadata": [{"input_tensor_metadata": [input_tree], "output_tensor_metadata": [output_tree]}]}
    model.metadata("min_runtime_version", b"1.5.0")
    model.metadata("TFLITE_METADATA", making.encoded(tree, "ModelMetadata", b"M001"))
    return model.build()


def normalized(mean, std):
    return {"process_units": [{"options_type": 1, "options": ("NormalizationOptions", {"mean": mean, "std": std})}]}


def named(name="labels.txt", kind=2):
    return {"associated_files": [{"name": name, "type": kind}]}


def archive(**files):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as made:
        for name, text in files.items():
            made.writestr(f"{name}.txt", text)
    return held.getvalue()


def test_pictures_and_classes():
    data = model_of(normalized([127.5], [127.5]), named())
    assert parse(data + archive(labels=LABELS)).meanings == {
        "x": Meaning(mean=(127.5,), deviation=(127.5,)),
        "y": Meaning(labels=("cat", "dog", "parrot, that is ä")),
    }


def test_a_model_without_metadata():
    model = making.Model()
    x = model.main.input("x", "float32", (1, 3))
    y = model.main.tensor("y", "float32", (1, 3))
    model.main.operator("ABS", [x], [y])
    model.main.output(y)
    assert parse(model.build()).meanings == {}


@pytest.mark.parametrize(
    ("data", "behind"),
    [
        (model_of(normalized([1.0, 2.0], [1.0]), {}), b""),
        (model_of(normalized([1.0], [0.0]), {}), b""),
        (model_of(normalized([float("nan")], [1.0]), {}), b""),
        (model_of({}, named()), b""),
        (model_of({}, named("other.txt")), archive(labels=LABELS)),
        (model_of({}, named()), archive(labels=LABELS)[:-30]),
        (model_of({}, named()), archive(labels="x" * ((1 << 20) + 1))),
    ],
    ids=["two means", "no deviation", "nan", "no archive", "other file", "cut archive", "too long"],
)
def test_damaged_metadata_are_left_out(data, behind, caplog):
    network = parse(data + behind)
    assert network.meanings == {}
    assert [layer.name for layer in network.outputs] == ["y"]
    assert "metadata are left out" in caplog.text


def test_metadata_cut_anywhere():
    tree = {"subgraph_metadata": [{"input_tensor_metadata": [normalized([1.0], [2.0])]}]}
    whole = making.encoded(tree, "ModelMetadata", b"M001")
    for length in range(1, len(whole)):
        model = making.Model()
        x, y = model.main.input("x", "float32", (1, 3)), model.main.tensor("y", "float32", (1, 3))
        model.main.operator("ABS", [x], [y])
        model.main.output(y)
        model.metadata("TFLITE_METADATA", whole[:length])
        assert len(parse(model.build()).outputs) == 1
