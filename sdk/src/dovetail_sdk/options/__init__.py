"""Options that several commands share, and how their texts are read: a module for each topic."""

from .files import (
    STDOUT,
    JsonToFile,
    ModelFile,
    html_option,
    in_folder,
    json_file_option,
    json_option,
    model_argument,
    model_or_demo,
    of_suffix,
    paths_option,
)
from .inputs import input_option, value_option, values_for
from .numbers import FiniteRange, limits_option, numbers_of
from .placing import (
    Placing,
    against_option,
    backend_options_option,
    backends_option,
    isolate_option,
    placing_options,
    threads_option,
    value_of,
)
from .sizes import Shapes, logger, one_for_open_sizes, shape_of, shape_option, shapes_for, tell_assumed

__all__ = [
    "STDOUT",
    "FiniteRange",
    "JsonToFile",
    "ModelFile",
    "Placing",
    "Shapes",
    "against_option",
    "backend_options_option",
    "backends_option",
    "html_option",
    "in_folder",
    "input_option",
    "isolate_option",
    "json_file_option",
    "json_option",
    "limits_option",
    "logger",
    "model_argument",
    "model_or_demo",
    "numbers_of",
    "of_suffix",
    "one_for_open_sizes",
    "paths_option",
    "placing_options",
    "shape_of",
    "shape_option",
    "shapes_for",
    "tell_assumed",
    "threads_option",
    "value_of",
    "value_option",
    "values_for",
]
