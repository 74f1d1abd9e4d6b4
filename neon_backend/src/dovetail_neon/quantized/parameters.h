/* Layers of quantized tensors: int8 or uint8 elements, each of which stands for scale * (element -
 * zero point).
 *
 * Images lie as [N, H, W, step] bytes: the channels of a pixel side by side, `step` apart from
 * pixel to pixel, a multiple of 16, or 4 where there are at most 4 channels. What lies between the
 * last channel and the next pixel is read, and what comes of it dropped; 64 bytes behind the last
 * pixel may be read too. Bytes are signed inside or not, as the instructions at hand want them
 * (`is_signed`): tensors of the other type have 128 added or subtracted at the edges, and so have
 * all zero points and bounds below.
 *
 * Sums are exact, in 32 bits, modulo 2^32 as TensorFlow Lite's are. They become results in float32:
 * sum * factor + zero, rounded to nearest even, clamped: the same bits on every machine. Next to
 * TensorFlow Lite's arithmetic of 31 bits results near a tie may differ by 1. */
#pragma once

#include "dovetail_neon/geometry/window.h"
#include "dovetail_neon/workload/job.h"
#include "dovetail_neon/recurrent/parameters.h"
#include "dovetail_neon/workload/packing.h"

/* From a sum to a result. Bounds count the zero point. */
typedef struct {
    const int32_t *bias;            /* per filter, whole blocks of 16: less the zero point of the image times the sum of the weights */
    const float *factors;           /* the same */
    float low, high;
    int32_t zero;
    int32_t near;                   /* results lie within 2^22 before they are clamped */
} acc_requantization;

/* Inputs: 0 the images. Output: 0. A tile computes up to 4 blocks of 16 filters for some pixels
 * side by side; filters that it computes are a panel. Results are shared out in rectangles: each
 * reads the image as it lies, or a frame, which is a copy of what it reads, of one group, without
 * gaps between pixels and with what lies outside the image in place, in a worker's own workspace.
 *
 * A row of a window is `runs` runs of `units` words: one run where all its bytes lie side by side,
 * else one for each tap. Weights are packed: for each block of 16 filters, for each row of the
 * window, for each run, for each word, the 16 filters; blocks of a panel of filters are interleaved
 * vector by vector. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t groups;                 /* groups of a convolution: each has its own channels and filters */
    int64_t channels, filters;      /* of one group */
    int64_t in_step, out_step;      /* bytes, from pixel to pixel */
    int64_t pixel_step;             /* the same of what tiles read */
    int64_t runs;                   /* of a row of a window */
    int64_t units;                  /* of a run: 4 bytes each */
    const char *weights;
    int64_t blocks;                 /* of a group: 16 filters each */
    int64_t panels;                 /* of a group: tiles compute one of them */
    int64_t row_bands, column_bands;    /* rectangles into which the results of an image are cut */
    acc_requantization result;
    int32_t framed;                 /* 0: tiles read images as they lie; else frames, whose elements have so many bytes */
    int32_t outside;                /* an element of a frame: what lies outside the image */
    int32_t chunks_first;           /* items go by images, rectangles, groups and panels; else by images, groups, panels and rectangles */
    int32_t last_lanes;             /* filters of the last block of a group that may be written: 16 where padding follows */
    int32_t polls;                  /* a tile takes long: the stop word is read before each */
    int32_t reserved;
} acc_quantized_convolution;

/* Convolution by a matrix unit, of images of unsigned bytes. What tiles read lies as [images,
 * planes, plane_height, plane_width, step]: the padding in place; with a stride, the pixels that
 * one tap sees are a plane of their own, so that pixels side by side in the result lie side by side
 * here too. Where windows are single pixels, images are read as they lie (`direct`). Of images of
 * at most 4 channels a row of the window is one tap: a run of bytes, which holds other pixels
 * beyond it, whose weights are zero. A tile is a run of pixels of the *grid*, rows of plane_width
 * pixels: those beyond the width of the result are computed and dropped.
 *
 * Weights are packed: for each block of 16 filters, for each tap, for each piece of 64 channels, 16
 * words of 4 channels. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t groups;
    int64_t channels, filters, blocks, pieces;  /* of one group */
    int64_t step, out_step;         /* bytes, from pixel to pixel */
    int64_t planes, plane_height, plane_width;
    const int64_t *plane_y;         /* per plane: where it begins in the padded image */
    const int64_t *plane_x;
    int64_t columns, column_stride; /* pixels in a row of a plane, and how far apart they are in the image */
    int64_t taps;
    const int64_t *tap_offset;      /* per tap: bytes from the corner of the window */
    int64_t tile_step;              /* bytes, from pixel to pixel of the grid */
    int64_t image_step;             /* bytes, of what tiles read */
    int64_t grid;                   /* pixels, up to the last one of the result */
    int64_t rows;                   /* pixels of a tile: 16, or all of a smaller grid */
    int64_t chunks;                 /* of the grid */
    const char *weights;
    acc_requantization result;
    int32_t outside;                /* a byte: what lies outside the image */
    int32_t direct;
    int32_t last_lanes;             /* filters of the last block of a group that may be written: 16 where padding follows */
    int32_t reserved;
} acc_quantized_matrix;

typedef struct {
    const char *name;
    /* Range: images * planes * plane_height. */
    dovetail_body arrange;
    /* Range: images * groups * chunks * pairs of blocks. */
    dovetail_body multiply;
    /* Packs the blocks of one group. */
    void (*pack)(const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
                 int64_t channels, char *packed, acc_packing *packing);
} acc_quantized_matrix_kernels;

/* Depthwise convolution. Results are shared out in rectangles; a worker copies what one reads into
 * its own workspace, with what lies outside the image in place, and computes rows of results a
 * group, which is a register of bytes, at a time. What a pixel holds in as many rows as a unit
 * multiplies at once is stacked: rows are interleaved byte by byte. Where the last stack has room
 * for another row, two rows of results are summed up from the same stacks, with weights that are
 * one row further down for the second.
 *
 * Groups begin at every pixel, as many *phases* of them as it takes; or, where pixels are no whole
 * groups, go on through a row from pixel to pixel until filters meet them in the same way again,
 * `period` pixels further. Each phase has weights of its own.
 *
 * Range: images * row_bands * column_bands. */
typedef struct {
    int64_t images;
    acc_window window;
    int64_t step;                   /* bytes, from pixel to pixel, before and after */
    int64_t stacks;                 /* of a window: kernel_height over the depth of a unit, rounded up */
    int64_t together;               /* rows of results that are computed from the same stacks: 1 or 2 */
    int64_t phases, period;
    int64_t row_bands, column_bands;    /* rectangles into which the results of an image are cut */
    int64_t stacked_bytes;          /* of a worker's workspace, for the stacks of a row; what it reads is behind them */
    const char *weights;            /* per phase, per row `together`, per stack, per column of the window: a group of words */
    acc_requantization result;      /* per phase: a group, as stacks hold it */
    int32_t outside;                /* a byte: what lies outside the image */
    int32_t polls;                  /* a row takes long: the stop word is read before each group of it */
} acc_quantized_depthwise;

/* From the sum of a layer of int16 to a result, by one of:
 *
 *   TIES_UP, TIES_AWAY          in double, which is exact for all sums that the layer can have:
 *                               (sum + bias) * factor, halves up (of fixed point) or away from zero
 *   WIDE, NARROW                sums of 64 or 32 bits, in fixed point
 *   WIDE_REAL, NARROW_REAL      the same times a double, halves away from zero */
enum { ACC_TIES_UP, ACC_TIES_AWAY, ACC_WIDE, ACC_NARROW, ACC_WIDE_REAL, ACC_NARROW_REAL };

/* Tables hold whole blocks of 16 filters, or phases of groups; padding is zero. */
typedef struct {
    const double *bias;             /* as `sums` */
    const double *factors;
    const double *nudges;           /* TIES_UP: half of what the last bit of a product stands for */
    const int64_t *sums;            /* what is added: the bias, less what zero points come to */
    const int32_t *multipliers;     /* of fixed point: 31 bits */
    const int32_t *shifts;
    int32_t zero, low, high;        /* bounds count the zero point */
    int32_t way;
} acc_short_results;

/* Convolution of images of int16, plain tensors with channels innermost. Everything is as above,
 * but that pixels are `in_step` and `out_step` elements apart, and that windows are always read
 * from frames: of bytes, the upper and the lower halves `plane` bytes apart, each of which is
 * multiplied in 32 bits; or of int16. Sums of 32 bits hold so many words (`most`) before they are
 * added up in double. `convolution.result` is unused. */
typedef struct {
    acc_quantized_convolution convolution;
    int64_t plane;
    int64_t most;
    acc_short_results result;
} acc_short_convolution;

/* Depthwise convolution of such images: steps are elements, and a group is as many int16 as a
 * register has bytes. `depthwise.result` is unused. */
typedef struct {
    acc_quantized_depthwise depthwise;
    acc_short_results result;
} acc_short_depthwise;

/* Pooling. Range: images * rows of results. */
typedef struct {
    int64_t images, channels;
    acc_window window;
    int64_t step;                   /* bytes, from pixel to pixel, before and after */
    const int32_t *counts;          /* average: [out_height * out_width], the elements that count */
    int32_t pad;                    /* average: what an element outside the image that counts is, as stored */
    int32_t offset;                 /* average: what has been added to stored elements */
    int32_t polls;                  /* a row takes long: the stop word is read before each block of channels */
    int32_t reserved;
} acc_quantized_pooling;

/* The second of two tensors of one layout in bytes. */
typedef struct {
    const void *constants;          /* signed as the bytes of the first; NULL: it is inputs[1] */
    int64_t period;                 /* bytes of the constants, which repeat themselves: whole groups of 64, or all */
} acc_quantized_second;

/* output = zero + a * (inputs[0] - zero_a) + b * (second - zero_b), rounded, or their product: zero
 * + a * (inputs[0] - zero_a) * (second - zero_b); of the greater or lesser of two, which share one
 * quantization, `count` and `second` are all that matters. Range: blocks of 16 bytes. */
typedef struct {
    int64_t count;                  /* bytes, whole blocks */
    acc_quantized_second second;
    float a, b;
    int32_t zero_a, zero_b;
    float low, high;
    int32_t zero;
    int32_t reserved;
} acc_quantized_sum;

/* output = bytes[input], both as they lie in memory; range: bytes. */
typedef struct {
    uint8_t bytes[256];
} acc_quantized_table;

/* Softmax of rows, of bytes as they are stored: each element's exponential over the sum of all, in
 * steps of the result, plus its zero point. By how far an element is below the greatest of its row:
 * what is summed up of it (`terms`), and, in fixed point, its exponential (`powers`), a fraction of
 * 31 bits. Range: rows. */
typedef struct {
    int64_t size;
    uint32_t terms[256];
    uint32_t powers[256];
    double step;
    int32_t fixed;
    int32_t reach;                  /* distances whose results may be other than the zero point: whole blocks of 16 */
    int32_t zero, low, high;
    uint8_t sign;                   /* bits that are flipped, so that bytes are in the order of the exponents */
} acc_quantized_softmax;

/* A factor: times multiplier * 2^(left - right - 31), as TensorFlow Lite's fixed point has it. */
typedef struct {
    int32_t multiplier;             /* not negative */
    int32_t left, right;            /* at most 31 */
} acc_fixed_point;

/* One side of a product of matrices. Steps are in bytes. */
typedef struct {
    int64_t input;                  /* which one it is */
    int64_t matrix_step;
    int64_t line_step;              /* from row to row of the left side, from column to column of the right one */
    int64_t depth_step;
    int64_t step;                   /* matrices from batch to batch: 0 or 1, if `matrices` is NULL */
    const int64_t *matrices;        /* per batch: which matrix */
    int32_t zero;                   /* of elements whose sign has been flipped */
    int32_t reserved;
} acc_quantized_factor;

/* Products of matrices, of bytes as they are stored. The workspace holds both sides in words of two
 * elements, of 16 bits each: rows of the left one, panels of 16 columns of the right one. */
typedef struct {
    int64_t rows, columns, depth;
    int64_t pairs;                  /* words of a row or column */
    int64_t panels;
    int64_t chunks;                 /* of the rows of a batch */
    int64_t packed_right;           /* bytes into the workspace */
    acc_quantized_factor left, right;
    acc_fixed_point scale;
    int32_t zero, low, high;
    uint8_t sign;                   /* that is flipped, so that elements are unsigned */
} acc_quantized_product;

/* zero + above * (inputs[0] - zero_x) where that is at least 0, else below * (inputs[0] - zero_x) *
 * (second - zero_slope). Range: blocks of 16 bytes. */
typedef struct {
    int64_t count;                  /* bytes, whole blocks */
    acc_quantized_second second;
    acc_fixed_point above, below;
    int32_t zero_x, zero_slope;
    int32_t zero, low, high;
} acc_quantized_prelu;

/* The pixels of each image become one: output = zero + factor * (the sum of all, their greatest or
 * their least - offset), rounded. Range: images * blocks of 16 channels. */
typedef struct {
    int64_t images, channels, pixels;
    int64_t step;                   /* bytes, from pixel to pixel, before and after */
    int32_t offset;                 /* the zero point, as often as it was summed up; modulo 2^32 */
    float factor;
    float low, high;
    int32_t zero;
    int32_t reserved;
} acc_quantized_reduction;

/* Between images as above and plain tensors. Range: images * chunks of pixels. */
typedef struct {
    int64_t images, channels, pixels, chunks;
    int64_t step;
    int32_t channels_last;          /* of the plain tensor */
    int32_t flip;                   /* change the sign bit of each byte */
} acc_quantized_reorder;

/* Between float32 and bytes, or int16, as they are stored; range: elements. */
typedef struct {
    float scale;
    int32_t zero;
    int32_t is_signed;
    int32_t away;                   /* round ties away from zero, else to even */
} acc_quantize;

/* Floats of plain tensors become images whose pixels have 4 bytes. Range: as of a reordering. */
typedef struct {
    acc_quantized_reorder order;
    acc_quantize quantize;
} acc_quantized_entry;

typedef struct {
    const char *name;
    int32_t is_signed;              /* of bytes inside */
    int32_t has_quads;              /* sums of 4 products of 8 bits; else only of 2 products of 16 */
    /* By depth: 0 halves, 1 quads or NULL. */
    dovetail_body convolve[2];
    dovetail_body depthwise[2];
    dovetail_body convolve_shorts[2];
    dovetail_body depthwise_shorts;
    dovetail_body maximum;
    dovetail_body average;
    dovetail_body sum;
    dovetail_body product;
    dovetail_body greater;
    dovetail_body lesser;
    dovetail_body look_up;
    dovetail_body softmax;
    dovetail_body prelu;
    dovetail_body pack_left;
    dovetail_body pack_right;
    dovetail_body multiply;
    dovetail_body reduce_sum;
    dovetail_body reduce_maximum;
    dovetail_body reduce_minimum;
    dovetail_body to_image;
    dovetail_body from_image;
    dovetail_body quantize;
    dovetail_body quantize_image;
    dovetail_body dequantize;
    dovetail_body quantize_shorts;
    dovetail_body dequantize_shorts;
    /* Most blocks in a panel, and pixels that a tile of so many blocks holds. */
    int32_t most_blocks;
    int32_t pixels[5];
    /* Packs a panel of `blocks` blocks from filter `first` on of weights [filters, taps, channels]:
     * less their zero points. */
    void (*pack[2])(const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
                    int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing);
    /* The same of weights that are stored in 8 bits, without zero points. */
    void (*pack_stored[2])(const int8_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first,
                           int64_t filters, int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing);
    /* Packs windows [channels, kernel_height, kernel_width] of steps in elements, for so many rows
     * together; `channel_of`: of each word of the groups of all phases, or -1. */
    void (*pack_depthwise[2])(const int16_t *weights, int64_t channel_step, int64_t row_step, int64_t column_step,
                              const int64_t *channel_of, int64_t phases, int64_t kernel_height, int64_t kernel_width,
                              int64_t together, char *packed);
    const acc_quantized_recurrent_kernels *recurrent;
} acc_quantized_kernels;

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels for an instruction set: with its dot products of bytes if this machine has them and they
 * are wanted. */
const acc_quantized_kernels *acc_quantized_kernels_of(const char *instruction_set, int32_t dot_products);
/* The matrix unit that belongs to kernels with dot products of bytes; NULL if this machine has
 * none. */
const acc_quantized_matrix_kernels *acc_quantized_matrix_of(const acc_quantized_kernels *kernels);

#ifdef __cplusplus
}
#endif
