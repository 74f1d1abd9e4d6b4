/* The table of layers of quantized tensors: part of that of an instruction set, and once more with
 * its dot products of bytes. */
#pragma once

#include "dovetail_neon/quantized/convolution.h"
#include "dovetail_neon/quantized/depthwise.h"
#include "dovetail_neon/quantized/elements.h"
#include "dovetail_neon/quantized/prelu.h"
#include "dovetail_neon/quantized/products.h"
#include "dovetail_neon/quantized/reduction.h"
#include "dovetail_neon/quantized/shorts.h"
#include "dovetail_neon/quantized/pooling.h"
#include "dovetail_neon/quantized/softmax.h"
#include "dovetail_neon/recurrent/quantized_lstm.h"
#include "dovetail_neon/recurrent/quantized_svdf.h"

namespace dovetail_acc::ACC_ISA {

/* A kernel by unit. */
#if ACC_HAS_QUADS
#define ACC_BY_UNIT(kernel) {kernel<Halves>, kernel<Quads>}
#else
#define ACC_HAS_QUADS 0
#define ACC_BY_UNIT(kernel) {kernel<Halves>, nullptr}
#endif

static const acc_quantized_recurrent_kernels quantized_recurrent_kernels = {
    ACC_BY_UNIT(quantized_lstm),
    ACC_BY_UNIT(quantized_svdf),
    ACC_BY_UNIT(pack_byte_matrix),
};

static const acc_quantized_kernels quantized_kernels = {
    ACC_TEXT(ACC_ISA),
    SIGNED_BYTES,
    ACC_HAS_QUADS,
    ACC_BY_UNIT(convolve_bytes),
    ACC_BY_UNIT(depthwise_bytes),
    ACC_BY_UNIT(convolve_shorts),
    depthwise_shorts,
    pool_bytes<Largest<GROUP>, Largest<BLOCK>>,
    pool_bytes<Mean, Mean>,
    combine_bytes<Sum>,
    combine_bytes<Product>,
    extreme_bytes<Greatest>,
    extreme_bytes<Least>,
    look_up_bytes,
    softmax_bytes,
    prelu_bytes,
    pack_left_bytes,
    pack_right_bytes,
    multiply_matrices,
    reduce_bytes<Total>,
    reduce_bytes<Greatest>,
    reduce_bytes<Least>,
    reorder_bytes<true>,
    reorder_bytes<false>,
    quantize,
    quantize_image,
    dequantize,
    quantize_shorts,
    dequantize_shorts,
    MAX_FILTER_BLOCKS,
    {0, tile_pixels(1), tile_pixels(2), tile_pixels(3), tile_pixels(4)},
    ACC_BY_UNIT(pack_shorts),
    ACC_BY_UNIT(pack_bytes),
    ACC_BY_UNIT(pack_depthwise),
    &quantized_recurrent_kernels,
};

} // namespace dovetail_acc::ACC_ISA
