"""What a file says of its inputs and outputs: the scaling of pictures, names of classes."""

import io
import zipfile

import pytest
import tflite_making as making

import dovetail
from dovetail import LimitError, Limits
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


def test_the_rate_of_sounds():
    sound = {"content_properties_type": 4, "content_properties": ("AudioProperties", {"sample_rate": 16000, "channels": 1})}
    assert parse(model_of({"content": sound}, {})).meanings == {"x": Meaning(rate=16000)}


@pytest.mark.parametrize("content", [{}, {"content_properties_type": 4}, {"content_properties_type": 2}])
def test_contents_that_tell_no_rate(content):
    assert parse(model_of({"content": content}, {})).meanings == {}


def said_by(tree, *others):
    """Return the bytes of a model with these metadata, and further entries of (name, bytes)."""
    model = making.Model()
    x, y = model.main.input("x", "float32", (1, 3)), model.main.tensor("y", "float32", (1, 3))
    model.main.operator("ABS", [x], [y])
    model.main.output(y)
    for name, data in others:
        model.metadata(name, data)
    if tree is not None:
        model.metadata("TFLITE_METADATA", making.encoded(tree, "ModelMetadata", b"M001"))
    return model.build()


def test_what_a_model_says_of_itself():
    tree = {"name": "parrots", "description": "Tells parrots ä", "version": "v2", "author": "Initech", "license": "Apache-2.0"}
    entries = [("min_runtime_version", b"1.5.0" + bytes(11)), ("CONVERSION_METADATA", bytes(range(64))), ("name", b"hidden")]
    assert parse(said_by(tree, *entries)).metadata == {
        "version": "3",
        "description": "made by a test",
        "metadata.name": "parrots",
        "metadata.description": "Tells parrots ä",
        "metadata.version": "v2",
        "metadata.author": "Initech",
        "metadata.license": "Apache-2.0",
        "metadata.min_runtime_version": "1.5.0",
    }


@pytest.mark.parametrize(
    ("tree", "entry"),
    [
        ({"license": "x" * 9000}, b"1.5.0"),
        ({"name": "parrots"}, b"x" * 9000),
        (None, b"\xff\xfe"),
        (None, b"\x1b[31m"),
        (None, b""),
    ],
    ids=["long field", "long entry", "no text", "control characters", "empty"],
)
def test_what_is_no_text_is_left_out(tree, entry):
    found = parse(said_by(tree, ("min_runtime_version", entry))).metadata
    assert "metadata.license" not in found
    assert found.get("metadata.min_runtime_version") in (None, "1.5.0")
    assert found["version"] == "3"


def test_limits_count_what_a_model_says():
    data = said_by({"name": "x" * 8000}, *[(f"entry {number}", b"y" * 8000) for number in range(50)])
    assert len(parse(data).metadata) >= 52
    with pytest.raises(LimitError, match="what the file says of itself"):
        dovetail.parse(data, limits=Limits(memory=1_000_000))


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


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
def test_archives_of_which_any_byte_may_be_wrong(method):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as made:
        made.writestr("labels.txt", LABELS * 5)
    model, behind = model_of({}, named()), held.getvalue()
    left_out = 0
    for place in range(len(behind)):
        changed = behind[:place] + bytes([behind[place] ^ 0x41]) + behind[place + 1 :]
        left_out += parse(model + changed).meanings == {}
    assert left_out


def test_a_file_of_labels_is_read_once_for_all_that_name_it():
    tree = {"subgraph_metadata": [{"output_tensor_metadata": [named()] * 2000}]}
    model = making.Model()
    y = model.main.tensor("y", "float32", (1, 3))
    model.main.operator("ABS", [model.main.input("x", "float32", (1, 3))], [y])
    model.main.tree["outputs"] = [y] * 2000
    model.metadata("TFLITE_METADATA", making.encoded(tree, "ModelMetadata", b"M001"))
    found = parse(model.build() + archive(labels="cat\n" * 200_000)).meanings
    assert len(found) == 2000
    assert len({id(meaning.labels) for meaning in found.values()}) == 1


def test_files_of_labels_have_a_limit_together():
    tensors = [named(f"{place}.txt") for place in range(4)]
    tree = {"subgraph_metadata": [{"output_tensor_metadata": tensors}]}
    model = making.Model()
    y = model.main.tensor("y", "float32", (1, 3))
    model.main.operator("ABS", [model.main.input("x", "float32", (1, 3))], [y])
    model.main.tree["outputs"] = [y] * 4
    model.metadata("TFLITE_METADATA", making.encoded(tree, "ModelMetadata", b"M001"))
    texts = {str(place): "cat\n" * 75_000 for place in range(4)}
    assert parse(model.build() + archive(**texts)).meanings == {}
    texts = {str(place): "cat\n" * 50_000 for place in range(4)}
    assert len(parse(model.build() + archive(**texts)).meanings) == 4
