"""The passes, one module each; their order stands in `pipeline.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ground.late_names import late_names

if TYPE_CHECKING:
    from .base import Pass as Pass
    from .drop_unused import DropUnused as DropUnused
    from .fix_inputs import FixShapes as FixShapes
    from .fix_inputs import FixValues as FixValues
    from .fold_batch_normalization import FoldBatchNormalization as FoldBatchNormalization
    from .fold_pad import FoldPad as FoldPad
    from .fuse_activation import FuseActivation as FuseActivation
    from .infer_and_fold import InferAndFold as InferAndFold
    from .insert_debug import InsertDebug as InsertDebug
    from .integer_layers import IntegerLayers as IntegerLayers
    from .inverse_permutes import InversePermutes as InversePermutes
    from .merge_constants import MergeConstants as MergeConstants
    from .merge_reshapes import MergeReshapes as MergeReshapes
    from .permute_as_reshape import PermuteAsReshape as PermuteAsReshape
    from .real_words import RealWords as RealWords
    from .reduce_float import ReduceFloat as ReduceFloat
    from .remove_identities import RemoveIdentities as RemoveIdentities
    from .share_constants import ShareConstants as ShareConstants
    from .validate import Validate as Validate

_MODULES = {
    "base": ("Pass",),
    "drop_unused": ("DropUnused",),
    "fix_inputs": (
        "FixShapes",
        "FixValues",
    ),
    "fold_batch_normalization": ("FoldBatchNormalization",),
    "fold_pad": ("FoldPad",),
    "fuse_activation": ("FuseActivation",),
    "infer_and_fold": ("InferAndFold",),
    "insert_debug": ("InsertDebug",),
    "integer_layers": ("IntegerLayers",),
    "inverse_permutes": ("InversePermutes",),
    "merge_constants": ("MergeConstants",),
    "merge_reshapes": ("MergeReshapes",),
    "permute_as_reshape": ("PermuteAsReshape",),
    "real_words": ("RealWords",),
    "reduce_float": ("ReduceFloat",),
    "remove_identities": ("RemoveIdentities",),
    "share_constants": ("ShareConstants",),
    "validate": ("Validate",),
}

__all__ = sorted([name for names in _MODULES.values() for name in names])  # type checkers go by the imports above

if not TYPE_CHECKING:
    __getattr__, __dir__ = late_names(__name__, _MODULES)
