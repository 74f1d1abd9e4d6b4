"""One module per family of operators, and the map from operator to family.

A family is imported when a model uses one of its operators.
"""

from __future__ import annotations

FAMILIES: dict[str, str] = {
    "activation": (
        "Celu Clip Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu "
        "Selu Shrink Sigmoid Softmax Softplus Softsign Swish Tanh ThresholdedRelu"
    ),
    "constants": "Constant ConstantOfShape EyeLike Range",
    "convolution": "Conv ConvTranspose",
    "einsum": "Einsum",
    "elementwise": (
        "Abs Acos Acosh Add Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
        "BitwiseXor Cast CastLike Ceil Cos Cosh Div Dropout Erf Exp Floor Identity IsInf IsNaN "
        "Log Max Mean Min Mod Mul Neg Pow Reciprocal Round Sign Sin Sinh Sqrt Sub Sum Tan"
    ),
    "indexing": (
        "Compress Gather GatherElements GatherND OneHot ReverseSequence Scatter ScatterElements ScatterND Slice Trilu"
    ),
    "joining": "Concat Pad Split",
    "logic": "And Equal Greater GreaterOrEqual Less LessOrEqual Not Or Where Xor",
    "matrix": "Gemm MatMul",
    "normalization": (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization RMSNormalization"
    ),
    "pooling": "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool",
    "quantization": "DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    "quantized_products": "ConvInteger MatMulInteger QLinearConv QLinearMatMul",
    "recurrent": "GRU LSTM RNN",
    "reduction": (
        "ArgMax ArgMin CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
        "ReduceMin ReduceProd ReduceSum ReduceSumSquare TopK"
    ),
    "reshaping": ("DepthToSpace Expand Flatten Reshape Shape Size SpaceToDepth Squeeze Tile Transpose Unsqueeze"),
    "resizing": "Resize Upsample",
}
"""Names of operators of ai.onnx by module; a test holds them against what the modules register."""

HOME = {name: family for family, names in FAMILIES.items() for name in names.split()}
