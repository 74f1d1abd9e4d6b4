/* The table of layers of quantized tensors: part of that of an instruction set, and once more with its dot products of bytes. */
#ifndef DOVETAIL_NEON_KERNELS_QUANTIZED_H
#define DOVETAIL_NEON_KERNELS_QUANTIZED_H

#include "quantized_convolution.h"
#include "quantized_elements.h"
#include "quantized_windows.h"

namespace dovetail_neon {
namespace DOVETAIL_NEON_ISA {

static const neon_quantized_kernels quantized_kernels = {
    DOVETAIL_NEON_TEXT(DOVETAIL_NEON_ISA),
    SIGNED_BYTES,
#if DOVETAIL_NEON_HAS_QUADS
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
    MOST_FILTER_BLOCKS,
    {0, tile_pixels(1), tile_pixels(2), tile_pixels(3), tile_pixels(4)},
#if DOVETAIL_NEON_HAS_QUADS
    {pack_bytes<Halves>, pack_bytes<Quads>},
    {pack_byte_windows<Halves>, pack_byte_windows<Quads>},
#else
    {pack_bytes<Halves>, nullptr},
    {pack_byte_windows<Halves>, nullptr},
#endif
};

} // namespace DOVETAIL_NEON_ISA
} // namespace dovetail_neon

#endif
