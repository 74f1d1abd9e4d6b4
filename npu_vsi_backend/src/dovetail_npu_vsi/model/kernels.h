/* What the model's kernels share. */
#ifndef DOVETAIL_VSI_KERNELS_H
#define DOVETAIL_VSI_KERNELS_H

#include <math.h>

#include "commands.h"

/* Return value * 2^-shift, rounded to nearest, ties to even. */
static inline int64_t vsi_shifted(int64_t value, int shift) {
    if (shift <= 0) return value * (INT64_C(1) << -shift);
    if (shift > 62) return 0;
    const int64_t whole = value >> shift, rest = value - whole * (INT64_C(1) << shift), half = INT64_C(1) << (shift - 1);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

/* Where the first byte of a block lies. */
static inline uint8_t *vsi_at(const struct vsi_memories *m, const struct vsi_block *block) {
    switch (block->memory) {
    case VSI_DDR: return m->ddr + block->offset;
    case VSI_SRAM: return m->sram + block->offset;
    case VSI_INPUT: return m->inputs[block->operand] + block->offset;
    case VSI_OUTPUT: return m->outputs[block->operand] + block->offset;
    default: return (uint8_t *)m->constants + block->offset;
    }
}

static inline const uint8_t *vsi_read(const struct vsi_memories *m, const struct vsi_block *block) { return vsi_at(m, block); }
static inline uint8_t *vsi_written(const struct vsi_memories *m, const struct vsi_block *block) { return vsi_at(m, block); }

/* Weights of bytes: signed where each channel has a scale of its own. */
static inline int32_t vsi_weight(uint8_t byte, const struct vsi_command *c) { return c->value ? (int8_t)byte : byte; }

static inline uint8_t vsi_clamped(int64_t value, const struct vsi_command *c) {
    return (uint8_t)(value < c->low ? c->low : value > c->high ? c->high : value);
}

/* Round ties to even and clamp: what no integer holds is at a bound, NaN at the lower one. */
static inline uint8_t vsi_rounded(double value, const struct vsi_command *c) {
    const double rounded = rint(value);
    return (uint8_t)(rounded >= c->high ? c->high : rounded > c->low ? (int)rounded : c->low);
}

void vsi_convolve(const struct vsi_command *command, const struct vsi_memories *memories, int32_t *scratch);
int64_t vsi_convolution_scratch(const struct vsi_command *command);
void vsi_pool(const struct vsi_command *command, const struct vsi_memories *memories);
void vsi_pick(const struct vsi_command *command, const struct vsi_memories *memories);
void vsi_blend(const struct vsi_command *command, const struct vsi_memories *memories);
void vsi_combine(const struct vsi_command *command, const struct vsi_memories *memories);
void vsi_softmax(const struct vsi_command *command, const struct vsi_memories *memories);

#endif
