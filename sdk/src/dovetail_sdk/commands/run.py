"""`dovetail run`: feed a network and show what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..options import (
    FiniteRange,
    JsonToFile,
    backend_options_option,
    backends_option,
    in_folder,
    input_option,
    isolate_option,
    json_file_option,
    limits_option,
    model_argument,
    numbers_of,
    shape_option,
    threads_option,
)


class ManyInputs(JsonToFile):
    """A command whose ``--input`` may be followed by many files, as shells make of a pattern."""

    def values_of(self, option: str, rest: list[str]) -> list[str]:
        """Take the pictures, sounds and arrays behind the first file as inputs, too."""
        if option not in ("-i", "--input") or not rest:
            return super().values_of(option, rest)
        values = [rest.pop(0)]
        if rest and not rest[0].startswith("-"):
            from ..folders import SAMPLES, is_file_or_dangling

            while rest and Path(rest[0]).suffix.lower() in SAMPLES and is_file_or_dangling(Path(rest[0])):
                values += [option, rest.pop(0)]
        return values


@click.command(cls=ManyInputs)
@model_argument
@backends_option
@backend_options_option
@isolate_option
@input_option(
    "; or many files for one input, which are run one by one: several of them, a folder, or a pattern in quotes, such as "
    "'photos/**/*.jpg'."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Write the outputs to this .npz (all) or .npy (one); of many files one behind the other, with their names.",
)
@shape_option
@threads_option
@limits_option
@click.option("--timeout", type=FiniteRange(min=0, min_open=True), metavar="SECONDS", help="Give up after this long.")
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Names of the classes: one a line, JSON or .csv; see the README. Default: as the model says.",
)
@click.option(
    "--label-offset",
    type=int,
    default=0,
    show_default=True,
    metavar="CLASS",
    help="Class of the first label: 1 where the labels lack the background, -1 where the network does.",
)
@click.option(
    "--expect",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare the outputs with those in this .npz or .npy; exit code 1 if they are beyond the tolerance.",
)
@click.option(
    "--tolerance",
    type=FiniteRange(min=0),
    metavar="SHARE",
    help="--expect: largest error, as a share of the largest magnitude; 0: equal. Default: by type, as diff has it.",
)
@click.option("--atol", type=FiniteRange(min=0), metavar="ERROR", help="--expect: largest error of an element, plus --rtol.")
@click.option(
    "--rtol",
    type=FiniteRange(min=0),
    metavar="SHARE",
    help="--expect: largest error, as a share of each expected element.",
)
@click.option(
    "--least",
    type=FiniteRange(),
    default=0.3,
    show_default=True,
    metavar="SCORE",
    help="Lowest score of detections that are shown.",
)
@click.option(
    "--draw",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Draw the detections on the picture and write it to this .png.",
)
@click.option(
    "--rate",
    type=click.IntRange(min=1),
    metavar="HZ",
    help="Sounds: refuse those of another rate. Default: as the model says, else any.",
)
@click.option("--top", type=click.IntRange(min=0), help="Best classes shown; 0 for none. Default: 5, of many files 1 each.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="For random inputs.")
@click.option(
    "--mean",
    type=numbers_of,
    metavar="NUMBERS",
    help="Pictures: value = (pixel - mean) * scale; one number or one per channel. Default: as the model says, else 0.",
)
@click.option("--scale", type=numbers_of, metavar="NUMBERS", help="Pictures: see --mean. Default: 1/255, for plain integers 1.")
@click.option(
    "--layout",
    type=click.Choice(["auto", "nchw", "nhwc"], case_sensitive=False),
    default="auto",
    show_default=True,
    help="Pictures.",
)
@click.option(
    "--channels",
    type=click.Choice(["rgb", "bgr"], case_sensitive=False),
    default="rgb",
    show_default=True,
    help="Pictures: their order.",
)
@click.option(
    "--guarded",
    is_flag=True,
    help="Then run again with each tensor between inaccessible pages, to find a kernel that leaves its tensors.",
)
@json_file_option
def command(**given: Any) -> None:
    """Run MODEL on an input, or on each of many files, and show its outputs.

    Exits with 1 if one of many files cannot be read or run, or if the outputs are not as --expect
    wants them.
    """
    from ..running import Request, perform

    if not perform(Request(**given)):
        click.get_current_context().exit(1)
