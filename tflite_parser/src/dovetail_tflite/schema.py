"""The tables of a TensorFlow Lite file, as far as the parser reads them.

Sources: `schema.fbs` of TensorFlow Lite, version 3, as of LiteRT 2.3.0; `metadata_schema.fbs` of
TensorFlow Lite Support.
"""

from __future__ import annotations

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of a file."""
VERSION = 3
"""The only version that there are files of."""

TABLES = {
    "Model": (
        "version:u32 operator_codes:[OperatorCode] subgraphs:[SubGraph] description:string buffers:[Buffer] "
        "metadata_buffer:[i32] metadata:[Metadata] signature_defs:[SignatureDef]"
    ),
    "OperatorCode": "deprecated_builtin_code:i8 custom_code:string version:i32=1 builtin_code:i32",
    "SubGraph": "tensors:[Tensor] inputs:[i32] outputs:[i32] operators:[Operator] name:string debug_metadata_index:i32=-1",
    "Tensor": (
        "shape:[i32] type:i8 buffer:u32 name:string quantization:QuantizationParameters is_variable:bool "
        "sparsity:SparsityParameters shape_signature:[i32] has_rank:bool - external_buffer:u32"
    ),
    "QuantizationParameters": (
        "min:[f32] max:[f32] scale:[f32] zero_point:[i64] details_type:u8 details:union quantized_dimension:i32"
    ),
    "BlockwiseQuantization": "scales:i32 zero_points:i32 block_size:i32 block_shape:[i32]",
    "SparsityParameters": "traversal_order:[i32] block_map:[i32] dim_metadata:[DimensionMetadata]",
    "DimensionMetadata": (
        "format:i8 dense_size:i32 array_segments_type:u8 array_segments:union array_indices_type:u8 array_indices:union"
    ),
    "Int32Vector": "values:[i32]",
    "Uint16Vector": "values:[u16]",
    "Uint8Vector": "values:[u8]",
    "Operator": (
        "opcode_index:u32 inputs:[i32] outputs:[i32] builtin_options_type:u8 builtin_options:union "
        "custom_options:[u8] custom_options_format:i8 mutating_variable_inputs:[bool] intermediates:[i32] "
        "large_custom_options_offset:u64 large_custom_options_size:u64 builtin_options2_type:u8 "
        "builtin_options2:union debug_metadata_index:i32=-1"
    ),
    "Buffer": "data:[u8] offset:u64 size:u64",
    "Metadata": "name:string buffer:u32",
    "SignatureDef": "inputs:[TensorMap] outputs:[TensorMap] signature_key:string - subgraph_index:u32",
    "TensorMap": "name:string tensor_index:u32",
    "ModelMetadata": (
        "name:string description:string version:string subgraph_metadata:[SubGraphMetadata] author:string license:string"
    ),
    "SubGraphMetadata": (
        "name:string description:string input_tensor_metadata:[TensorMetadata] output_tensor_metadata:[TensorMetadata]"
    ),
    "TensorMetadata": (
        "name:string description:string dimension_names:[string] content:Content process_units:[ProcessUnit] - "
        "associated_files:[AssociatedFile]"
    ),
    "Content": "content_properties_type:u8 content_properties:union",
    "AudioProperties": "sample_rate:u32 channels:u32",
    "ProcessUnit": "options_type:u8 options:union",
    "NormalizationOptions": "mean:[f32] std:[f32]",
    "AssociatedFile": "name:string description:string type:i8",
    "Conv2DOptions": (
        "padding:i8 stride_w:i32 stride_h:i32 fused_activation_function:i8 dilation_w_factor:i32=1 "
        "dilation_h_factor:i32=1 quantized_bias_type:i8"
    ),
    "Conv3DOptions": (
        "padding:i8 stride_d:i32 stride_w:i32 stride_h:i32 fused_activation_function:i8 dilation_d_factor:i32=1 "
        "dilation_w_factor:i32=1 dilation_h_factor:i32=1"
    ),
    "Pool2DOptions": "padding:i8 stride_w:i32 stride_h:i32 filter_width:i32 filter_height:i32 fused_activation_function:i8",
    "DepthwiseConv2DOptions": (
        "padding:i8 stride_w:i32 stride_h:i32 depth_multiplier:i32 fused_activation_function:i8 "
        "dilation_w_factor:i32=1 dilation_h_factor:i32=1"
    ),
    "SVDFOptions": "rank:i32 fused_activation_function:i8 asymmetric_quantize_inputs:bool",
    "RNNOptions": "fused_activation_function:i8 asymmetric_quantize_inputs:bool",
    "SequenceRNNOptions": "time_major:bool fused_activation_function:i8 asymmetric_quantize_inputs:bool",
    "BidirectionalSequenceRNNOptions": (
        "time_major:bool fused_activation_function:i8 merge_outputs:bool asymmetric_quantize_inputs:bool"
    ),
    "FullyConnectedOptions": (
        "fused_activation_function:i8 weights_format:i8 keep_num_dims:bool asymmetric_quantize_inputs:bool "
        "quantized_bias_type:i8 quant_spec:[u8]"
    ),
    "SoftmaxOptions": "beta:f32",
    "ConcatenationOptions": "axis:i32 fused_activation_function:i8",
    "AddOptions": "fused_activation_function:i8 pot_scale_int16:bool=1",
    "MulOptions": "fused_activation_function:i8",
    "L2NormOptions": "fused_activation_function:i8",
    "LocalResponseNormalizationOptions": "radius:i32 bias:f32 alpha:f32 beta:f32",
    "LSTMOptions": "fused_activation_function:i8 cell_clip:f32 proj_clip:f32 kernel_type:i8 asymmetric_quantize_inputs:bool",
    "UnidirectionalSequenceLSTMOptions": (
        "fused_activation_function:i8 cell_clip:f32 proj_clip:f32 time_major:bool "
        "asymmetric_quantize_inputs:bool diagonal_recurrent_tensors:bool"
    ),
    "BidirectionalSequenceLSTMOptions": (
        "fused_activation_function:i8 cell_clip:f32 proj_clip:f32 merge_outputs:bool time_major:bool=1 "
        "asymmetric_quantize_inputs:bool"
    ),
    "ResizeBilinearOptions": "- - align_corners:bool half_pixel_centers:bool",
    "ResizeNearestNeighborOptions": "align_corners:bool half_pixel_centers:bool",
    "CallOptions": "subgraph:u32",
    "ReshapeOptions": "new_shape:[i32]",
    "SpaceToDepthOptions": "block_size:i32",
    "DepthToSpaceOptions": "block_size:i32",
    "SubOptions": "fused_activation_function:i8 pot_scale_int16:bool=1",
    "DivOptions": "fused_activation_function:i8",
    "GatherOptions": "axis:i32 batch_dims:i32",
    "ReducerOptions": "keep_dims:bool",
    "SqueezeOptions": "squeeze_dims:[i32]",
    "SplitOptions": "num_splits:i32",
    "SplitVOptions": "num_splits:i32",
    "StridedSliceOptions": "begin_mask:i32 end_mask:i32 ellipsis_mask:i32 new_axis_mask:i32 shrink_axis_mask:i32 offset:bool",
    "ArgMaxOptions": "output_type:i8",
    "ArgMinOptions": "output_type:i8",
    "TransposeConvOptions": "padding:i8 stride_w:i32 stride_h:i32 fused_activation_function:i8 quantized_bias_type:i8",
    "SparseToDenseOptions": "validate_indices:bool",
    "ShapeOptions": "out_type:i8",
    "FakeQuantOptions": "min:f32 max:f32 num_bits:i32 narrow_range:bool",
    "PackOptions": "values_count:i32 axis:i32",
    "OneHotOptions": "axis:i32",
    "UnpackOptions": "num:i32 axis:i32",
    "LeakyReluOptions": "alpha:f32",
    "MirrorPadOptions": "mode:i8",
    "UniqueOptions": "idx_out_type:i8=2",
    "ReverseSequenceOptions": "seq_dim:i32 batch_dim:i32",
    "IfOptions": "then_subgraph_index:i32 else_subgraph_index:i32",
    "CallOnceOptions": "init_subgraph_index:i32",
    "WhileOptions": "cond_subgraph_index:i32 body_subgraph_index:i32",
    "BatchMatMulOptions": "adj_x:bool adj_y:bool asymmetric_quantize_inputs:bool",
    "CumsumOptions": "exclusive:bool reverse:bool",
    "VarHandleOptions": "container:string shared_name:string",
    "RandomOptions": "seed:i64 seed2:i64",
    "BucketizeOptions": "boundaries:[f32]",
    "GeluOptions": "approximate:bool",
    "ReduceWindowOptions": "reduce_function:i32",
    "StableHLOCompositeOptions": (
        "name:string decomposition_subgraph_index:i32 composite_attributes:[u8] composite_attributes_format:i8 version:i32"
    ),
}
"""Fields of each table, in the order of the schema: `name:type`, and `=default` if it is not zero.

A type is a number's (`i32`, `f32`, ...), `string`, the name of a table, a vector of one of these in
brackets, or `union`, whose table another field names. `-` holds the place of a field that is not
read.
"""

OPTIONS = {
    1: "Conv2DOptions",
    2: "DepthwiseConv2DOptions",
    5: "Pool2DOptions",
    6: "SVDFOptions",
    7: "RNNOptions",
    8: "FullyConnectedOptions",
    9: "SoftmaxOptions",
    10: "ConcatenationOptions",
    11: "AddOptions",
    12: "L2NormOptions",
    13: "LocalResponseNormalizationOptions",
    14: "LSTMOptions",
    15: "ResizeBilinearOptions",
    16: "CallOptions",
    17: "ReshapeOptions",
    19: "SpaceToDepthOptions",
    21: "MulOptions",
    23: "GatherOptions",
    27: "ReducerOptions",
    28: "SubOptions",
    29: "DivOptions",
    30: "SqueezeOptions",
    31: "SequenceRNNOptions",
    32: "StridedSliceOptions",
    35: "SplitOptions",
    40: "ArgMaxOptions",
    49: "TransposeConvOptions",
    50: "SparseToDenseOptions",
    55: "ShapeOptions",
    57: "ArgMinOptions",
    58: "FakeQuantOptions",
    59: "PackOptions",
    61: "OneHotOptions",
    64: "UnpackOptions",
    69: "BidirectionalSequenceLSTMOptions",
    70: "BidirectionalSequenceRNNOptions",
    71: "UnidirectionalSequenceLSTMOptions",
    74: "ResizeNearestNeighborOptions",
    75: "LeakyReluOptions",
    77: "MirrorPadOptions",
    79: "SplitVOptions",
    80: "UniqueOptions",
    87: "ReverseSequenceOptions",
    92: "IfOptions",
    93: "WhileOptions",
    94: "DepthToSpaceOptions",
    101: "BatchMatMulOptions",
    102: "CumsumOptions",
    103: "CallOnceOptions",
    106: "Conv3DOptions",
    111: "VarHandleOptions",
    114: "RandomOptions",
    115: "BucketizeOptions",
    116: "GeluOptions",
}
"""Tables of `builtin_options` by `builtin_options_type`; those that have no fields are left out."""

OPTIONS_2 = {
    20: "ReduceWindowOptions",
    21: "StableHLOCompositeOptions",
}
"""Tables of `builtin_options2` by its type."""

OPERATORS = (  # noqa: SIM905  # a name on each line is too long, a list of them too wide
    "ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE "
    "EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D "
    "LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 "
    "RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL "
    "CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND "
    "SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE "
    "BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST "
    "PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN "
    "TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW "
    "ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK "
    "REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR "
    "LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS "
    "WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE "
    "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL "
    "PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS "
    "HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE "
    "READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM "
    "MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX "
    "UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT "
    "STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM "
    "STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM "
    "STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS "
    "STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG "
    "STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT "
    "STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE "
    "STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD "
    "STABLEHLO_IOTA STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE "
    "STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW "
    "STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE "
).split()
"""Names of the builtin operators, by their codes."""
