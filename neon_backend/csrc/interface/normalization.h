/* Channels scaled and shifted: by what was learned, or after their mean and variance were made 0 and 1. */
#ifndef DOVETAIL_NEON_NORMALIZATION_H
#define DOVETAIL_NEON_NORMALIZATION_H

#include "job.h"

/* A tensor [outer, channels, inner] times a factor, plus an offset, per channel. Range: outer * channels, or outer if inner is 1. */
typedef struct {
    int64_t channels, inner;
    const float *factor;        /* [channels] */
    const float *offset;        /* [channels] */
} neon_affine;

/* A tensor [outer, groups, channels, inner]: each group of each outer has its own mean and variance. Range: outer * groups. */
typedef struct {
    int64_t groups;
    int64_t channels;           /* of a group */
    int64_t inner;
    float epsilon;
    const float *scale;         /* [groups * channels] */
    const float *offset;        /* [groups * channels] */
} neon_group_normalization;

/* A tensor [outer, pixels, channels]: each channel of each outer has its own mean and variance. Range: outer * vectors of channels. */
typedef struct {
    int64_t pixels, channels;
    float epsilon;
    const float *scale;         /* [channels] */
    const float *offset;        /* [channels] */
} neon_column_normalization;

typedef struct {
    dovetail_body affine;
    dovetail_body groups;
    dovetail_body columns;
} neon_normalization_kernels;

#endif
