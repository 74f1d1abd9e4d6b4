/* The commands of the model's programs, and what carries them out.
 *
 * A command reads and writes blocks of four axes, each with its own distance in bytes, in one of
 * the model's memories. Programs hold them as they stand here, so that a field is only appended.
 */
#ifndef DOVETAIL_VSI_COMMANDS_H
#define DOVETAIL_VSI_COMMANDS_H

#include <stdint.h>

enum { VSI_AXES = 4 };

/* Where a block lies. Of inputs and outputs there is one memory each; its number is the operand. */
enum vsi_memory { VSI_DDR, VSI_SRAM, VSI_CONSTANTS, VSI_INPUT, VSI_OUTPUT };

enum vsi_opcode {
    VSI_COPY,        /* through a table of 256 bytes, if there is one */
    VSI_FILL,
    VSI_CONVOLVE,
    VSI_MAX_POOL,
    VSI_AVERAGE_POOL,
    VSI_ADD,
    VSI_MULTIPLY,
    VSI_SOFTMAX,
    VSI_SUM,         /* a convolution of two channels */
    VSI_PICK,        /* rows and columns of images, by their numbers */
    VSI_BLEND,       /* between rows and columns of images */
    VSI_OPCODES
};

struct vsi_block {
    int32_t memory;             /* of enum vsi_memory */
    int32_t operand;            /* number of the input or output */
    int64_t offset;             /* bytes */
    int64_t size[VSI_AXES];     /* outermost first */
    int64_t stride[VSI_AXES];   /* bytes; 0 repeats */
};

struct vsi_command {
    int32_t opcode;             /* of enum vsi_opcode */
    int32_t operation;          /* number of the operation of the program that it is part of */
    struct vsi_block input;
    struct vsi_block second;    /* of binary operations */
    struct vsi_block output;
    int32_t zero[3];            /* zero points: input, second or weights, output */
    int32_t low, high;          /* bounds of results */
    int32_t value;              /* of VSI_FILL; else whether weights are signed, or averages rounded down */
    int32_t kernel[2];          /* height, width; of VSI_SUM the two weights; of VSI_BLEND sums of weights */
    int32_t stride[2];
    int32_t dilation[2];
    int32_t padding[2];         /* rows and columns of zeros before the input block */
    int32_t count_padding;
    int32_t group_inputs;       /* input channels that a filter reads */
    int32_t group_outputs;      /* filters of a group */
    int32_t first_filter;       /* of the block's results, within the layer */
    int64_t weights;            /* offsets in the constants; -1: none */
    int64_t filters;            /* struct vsi_filter of each filter of the layer */
    int64_t table;              /* 256 bytes; of VSI_SOFTMAX 256 doubles; else int32 of rows, then columns:
                                 * of VSI_PICK where they come from; of VSI_BLEND all first
                                 * neighbours, all second ones, and the weights of those */
    int64_t reals;              /* of VSI_ADD and VSI_MULTIPLY two floats, else a double */
    int32_t chunk;              /* products that are summed before they join a float; 0: no sum is rounded */
    int32_t by_rows;            /* a row of a window begins a chunk */
    int32_t lift;               /* what elements less their zero point are raised by, of chunks */
    int32_t across;             /* chunks count from the first channel of the image, not of the group */
};

/* What finishes the sums of a filter: bias, then round(sum * mantissa * 2^-shift), ties to even.
 * Of the shader that is a float's product with a factor; chunks are added to the bias. */
struct vsi_filter {
    int64_t bias;
    int32_t mantissa;
    int32_t shift;
    int32_t zero;               /* of the weights */
    float factor;               /* instead of mantissa and shift; 0: of the convolution engine */
};

struct vsi_memories {
    uint8_t *ddr, *sram;
    const uint8_t *constants;
    uint8_t *const *inputs;
    uint8_t *const *outputs;
};

/* Carry out commands in order, for some milliseconds; return how many were. */
int64_t vsi_execute(const struct vsi_command *commands, int64_t count, const struct vsi_memories *memories,
                    int32_t *scratch);

/* Bytes of scratch that the commands need. */
int64_t vsi_scratch_bytes(const struct vsi_command *commands, int64_t count);

#endif
