"""The passes, one module each; their order stands in `pipeline.py`."""

from __future__ import annotations

from .base import Pass
from .drop_unused import DropUnused
from .fix_inputs import FixShapes, FixValues
from .fold_batch_normalization import FoldBatchNormalization
from .fold_pad import FoldPad
from .fuse_activation import FuseActivation
from .infer_and_fold import InferAndFold
from .insert_debug import InsertDebug
from .integer_layers import IntegerLayers
from .inverse_permutes import InversePermutes
from .merge_constants import MergeConstants
from .merge_reshapes import MergeReshapes
from .permute_as_reshape import PermuteAsReshape
from .reduce_float import ReduceFloat
from .remove_identities import RemoveIdentities
from .share_constants import ShareConstants
from .validate import Validate

__all__ = [
    "DropUnused",
    "FixShapes",
    "FixValues",
    "FoldBatchNormalization",
    "FoldPad",
    "FuseActivation",
    "InferAndFold",
    "InsertDebug",
    "IntegerLayers",
    "InversePermutes",
    "MergeConstants",
    "MergeReshapes",
    "Pass",
    "PermuteAsReshape",
    "ReduceFloat",
    "RemoveIdentities",
    "ShareConstants",
    "Validate",
]
