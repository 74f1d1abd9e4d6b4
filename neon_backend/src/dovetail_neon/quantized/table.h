/* The table of layers of quantized tensors: part of that of an instruction set, and once more with
 * its dot products of bytes. */
#pragma once

#include "dovetail_neon/quantized/convolution.h"
#include "dovetail_neon/quantized/elements.h"
#include "dovetail_neon/quantized/windows.h"

namespace dovetail_acc::ACC_ISA {

static const acc_quantized_kernels quantized_kernels = {
    ACC_TEXT(ACC_ISA),
    SIGNED_BYTES,
#if ACC_HAS_QUADS
    1,
    {convolve_bytes<Halves>, convolve_bytes<Quads>},
    {depthwise_bytes<Halves>, depthwise_bytes<Quads>},
#else
    0,
    {convolve_bytes<Halves>, nullptr},
    {depthwise_bytes<Halves>, nullptr},
#endif
    widen_bytes,
    pool_bytes<Largest>,
    pool_bytes<Mean>,
    sum_of_bytes,
    reorder_bytes<true>,
    reorder_bytes<false>,
    quantize,
    dequantize,
    MAX_FILTER_BLOCKS,
    {0, tile_pixels(1), tile_pixels(2), tile_pixels(3), tile_pixels(4)},
#if ACC_HAS_QUADS
    {pack_bytes<Halves>, pack_bytes<Quads>},
    {pack_byte_windows<Halves>, pack_byte_windows<Quads>},
#else
    {pack_bytes<Halves>, nullptr},
    {pack_byte_windows<Halves>, nullptr},
#endif
};

} // namespace dovetail_acc::ACC_ISA
