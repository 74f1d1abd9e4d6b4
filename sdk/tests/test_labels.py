"""Files of labels, and whether these are those of a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import Result
from PIL import Image

from dovetail.graph.meaning import Meaning
from dovetail_sdk.detections import Detector
from dovetail_sdk.labels import ClassNames, of_lines, read_labels

Invoke = Callable[..., Result]
NAMES = ("tench, Tinca tinca", "goldfish", "l'été")


def write(folder: Path, text: str, name: str = "labels.txt") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "tench, Tinca tinca\ngoldfish\nl'été\n"),
        ("bom.txt", "\ufefftench, Tinca tinca\r\ngoldfish\r\nl'été\r\n\r\n"),
        ("numbers.txt", "0 tench, Tinca tinca\n1 goldfish\n2 l'été"),
        ("colons.txt", "2: l'été\n0: tench, Tinca tinca\n\n1:goldfish\n"),
        ("tabs.txt", "0\ttench, Tinca tinca\n1\tgoldfish\n2\tl'été\n"),
        ("synsets.txt", "n01440764 tench, Tinca tinca\nn01443537 goldfish\nn01484850 l'été\n"),
        ("both.txt", "0: n01440764 tench, Tinca tinca\n1: n01443537 goldfish\n2: n01484850 l'été\n"),
        ("list.json", json.dumps(NAMES)),
        ("dict.json", json.dumps(dict(reversed(list(enumerate(NAMES)))))),
        ("keras.json", json.dumps({str(number): [f"n0000000{number}", name] for number, name in enumerate(NAMES)})),
        ("config.json", json.dumps({"model_type": "vit", "id2label": dict(enumerate(NAMES)), "size": 224})),
        ("label2id.json", json.dumps({name: number for number, name in enumerate(NAMES)})),
        ("coco.json", json.dumps({"categories": [{"id": number, "name": name} for number, name in enumerate(NAMES)]})),
        ("objects.json", json.dumps([{"name": name} for name in NAMES])),
        ("python.txt", "{0: 'tench, Tinca tinca',\n 1: 'goldfish',\n 2: \"l'été\"}"),
        ("python_list.txt", str(list(NAMES))),
        ("plain.csv", '"tench, Tinca tinca"\ngoldfish\n"l\'été"\n'),
        ("numbered.csv", '2,l\'été\n0,"tench, Tinca tinca"\n1,goldfish\n'),
        ("headings.csv", 'index,mid,display_name\n0,/m/1,"tench, Tinca tinca"\n1,/m/2,goldfish\n2,/m/3,l\'été\n'),
        ("other.csv", 'Nummer,Klasse\n1,goldfish\n0,"tench, Tinca tinca"\n2,l\'été\n'),
        ("swapped.csv", 'name,id\ngoldfish,1\n"tench, Tinca tinca",0\nl\'été,2\n'),
        ("one.csv", 'label\n"tench, Tinca tinca"\ngoldfish\nl\'été\n'),
        ("tabs.tsv", "id\tname\n0\ttench, Tinca tinca\n1\tgoldfish\n2\tl'été\n"),
    ],
)
def test_forms(tmp_path: Path, name: str, text: str) -> None:
    assert read_labels(write(tmp_path, text, name)) == NAMES


def test_a_class_without_a_name_keeps_its_place(tmp_path: Path) -> None:
    assert read_labels(write(tmp_path, "a\n\nc\n\n")) == ("a", "", "c")
    assert read_labels(write(tmp_path, "1 a\n3 c\n")) == ("", "a", "", "c")
    assert read_labels(write(tmp_path, '{"3": "c"}', "a.json")) == ("", "", "", "c")


@pytest.mark.parametrize(
    "names",
    [
        ("0", "1", "2"),
        ("7 up", "7 down"),
        ("2012 Audi", "2013 BMW"),
        ("3", "3 d glasses"),
        ("n01440764", "n01443537"),
        ("n01440764 tench", "other"),
        ("-1 below", "0 none"),
        ("² squared", "³ cubed"),
    ],
)
def test_names_that_only_look_numbered_stay_whole(names: tuple[str, ...]) -> None:
    assert of_lines(names) == names


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", ""),
        ("b.txt", "\n \n"),
        ("c.json", "{"),
        ("d.json", "3"),
        ("e.json", '{"a": "b"}'),
        ("f.json", "[1, 2]"),
        ("g.json", "[" * 100_000),
        ("h.json", '{"0": "a", "00": "b"}'),
        ("i.json", '{"999999999": "a"}'),
        ("j.json", '{"names": {"a": {}}}'),
        ("k.csv", "a,b\nc\n"),
        ("l.csv", "id,name\n0,a\n0,b\n"),
        ("m.csv", "id,name\n0,a\nx,b\n"),
        ("n.txt", "{0: __import__('os')}"),
    ],
)
def test_files_without_names(tmp_path: Path, name: str, text: str) -> None:
    path = write(tmp_path, text, name)
    with pytest.raises(click.UsageError, match="no names of classes") as caught:
        read_labels(path)
    assert str(path) in caught.value.message
    assert "JSON" in caught.value.message


def names_of(path: Path | None = None, offset: int = 0, detector: Detector | None = None, **own: tuple[str, ...]) -> ClassNames:
    network: Any = SimpleNamespace(
        outputs=[SimpleNamespace(name=name) for name in ("y", "z", "classes")],
        meanings={name: Meaning(labels=labels) for name, labels in own.items()},
    )
    return ClassNames(network, detector, path, offset)


SHAPES = {"y": (1, 3), "z": (1, 7, 7, 3), "classes": (1, 10)}


def test_labels_belong_to_the_output_that_has_so_many_classes(tmp_path: Path) -> None:
    assert names_of(write(tmp_path, "a\nb\nc")).of(SHAPES) == {"y": ("a", "b", "c")}
    assert names_of(y=("a", "b", "c", ""), z=("a", "b", "c")).of(SHAPES) == {"y": ("a", "b", "c")}
    many = "\n".join("abcdefghij")
    assert names_of(write(tmp_path, many), y=("a", "b", "c")).of(SHAPES) == {"classes": tuple("abcdefghij")}


@pytest.mark.parametrize(
    ("count", "offset", "found"),
    [
        (2, 0, "names 2 classes, but output 'y' has 3: if class 0 is a background, as it often is, --label-offset 1"),
        (4, 0, "names 4 classes, but output 'y' has 3: if the first label is a background .* --label-offset -1"),
        (80, 0, "names 80 classes, but output 'y' has 3: give the file of labels that belongs"),
        (3, 1, "names 3 classes, 4 with --label-offset 1, but output 'y' has 3"),
    ],
)
def test_another_count_is_an_error_that_says_what_to_do(tmp_path: Path, count: int, offset: int, found: str) -> None:
    path = write(tmp_path, "\n".join(f"name {number}" for number in range(count)))
    with pytest.raises(click.UsageError, match=found):
        names_of(path, offset).of(SHAPES)


@pytest.mark.parametrize(("names", "offset", "placed"), [("ab", 1, ("", "a", "b")), ("wabc", -1, ("a", "b", "c"))])
def test_labels_can_be_moved(tmp_path: Path, names: str, offset: int, placed: tuple[str, ...]) -> None:
    assert names_of(write(tmp_path, "\n".join(names)), offset).of(SHAPES) == {"y": placed}
    assert names_of(None, offset, y=tuple(names)).of(SHAPES) == {"y": placed}


def test_names_of_the_model_that_do_not_fit_are_told_and_not_shown() -> None:
    names = names_of(y=("a", "b"))
    assert names.of(SHAPES) == {}
    assert names.notes == [
        "the model names 2 classes, but output 'y' has 3: if class 0 is a background, as it often is, "
        "--label-offset 1 gives the first label to class 1"
    ]
    names = names_of(z=("a", "b"))
    assert names.of(SHAPES) == {}
    assert names.notes == [], "nothing says that it has classes at all"


def test_names_cannot_control_a_terminal() -> None:
    assert names_of(y=("a\x1b[2Jb", "two\nlines", "größe")).of(SHAPES) == {"y": ("a?[2Jb", "two lines", "größe")}


def test_labels_for_a_network_without_classes(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="no output of the network has classes"):
        names_of(write(tmp_path, "a\nb\nc")).of({"y": (1, 7, 7, 3), "z": (3,), "classes": ()})


def test_a_detector_may_have_a_background_or_none(tmp_path: Path) -> None:
    detector = Detector("boxes", "classes", "scores", "count", 2)
    for text, expected in (("a\nb", ("a", "b")), ("none\na\nb", ("none", "a", "b"))):
        assert names_of(write(tmp_path, text), detector=detector).of(SHAPES) == {"classes": expected}
    with pytest.raises(click.UsageError, match="names 4 classes, but output 'classes' has 2"):
        names_of(write(tmp_path, "a\nb\nc\nd"), detector=detector).of(SHAPES)


def test_the_command_takes_names_from_the_metadata_of_the_model(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(classifier)
    model.metadata_props.add(key="names", value=str({0: "red", 1: "green", 2: "blue", 3: "low", 4: "quarter"}))
    onnx.save(model, classifier)
    Image.new("RGB", (8, 8), (0, 255, 0)).save(tmp_path / "green.png")
    arguments = ("run", classifier, "-b", "CpuRef", "-i", tmp_path / "green.png")
    assert ["0", "1", "1", "green"] in [line.split() for line in dovetail(*arguments).stdout.splitlines()]
    other = write(tmp_path, "r\ng\nb\nl\nq")
    assert ["0", "1", "1", "g"] in [line.split() for line in dovetail(*arguments, "--labels", other).stdout.splitlines()]
    moved = dovetail(*arguments, "--label-offset", 1)
    assert moved.exit_code == 0
    assert "note: the model names 5 classes, 6 with --label-offset 1, but output 'scores' has 5" in moved.stderr


def test_the_command_refuses_labels_of_another_count_before_it_runs(dovetail: Invoke, classifier: Path, tmp_path: Path) -> None:
    path = write(tmp_path, "a\nb\nc\nd")
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", "random", "--labels", path)
    assert result.exit_code == 2
    assert "names 4 classes, but output 'scores' has 5" in result.stderr
    assert "picture <-" not in result.stdout
    moved = dovetail("run", classifier, "-b", "CpuRef", "-i", "random", "--labels", path, "--label-offset", 1)
    assert moved.exit_code == 0, moved.output


def test_an_offset_of_labels_that_are_not_there_is_refused(dovetail: Invoke, classifier: Path) -> None:
    result = dovetail("run", classifier, "-b", "CpuRef", "-i", "random", "--label-offset", 1)
    assert result.exit_code == 2
    assert "--label-offset 1: the model names no classes; give their names by --labels" in " ".join(result.stderr.split())
