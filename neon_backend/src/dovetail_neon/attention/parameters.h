/* softmax(scale * q k' + mask) v for each head. */
#pragma once

#include "dovetail_neon/workload/job.h"

/* Inputs: q [batches, queries, heads * size], k [batches, keys, heads * size], v [batches, keys,
 * heads * value_size] and, if `masked`, what is added to the scaled scores, of the steps below.
 * Output: [batches, queries, heads * value_size]. Workspace: packed keys, for each head panels
 * [size, vectors, LANES] of tokens; then packed values, for each head panels [keys, vectors, LANES]
 * of what a head computes. Worker scratch: scores of a block of queries, and their sums. */
typedef struct {
    int64_t batches, heads, queries, keys, size, value_size;
    int64_t blocks;                 /* of the queries of a head: range is batches * heads * blocks */
    int64_t block_rows;             /* most queries in a block */
    int64_t key_panels, value_panels;
    int64_t packed_values;          /* where they begin in the workspace, in elements */
    int64_t mask_batch_step, mask_head_step, mask_query_step, mask_key_step;    /* in elements; the last is 0 or 1 */
    float scale;
    int32_t masked;
} acc_attention;

typedef struct {
    dovetail_body pack;             /* range: batches * heads */
    dovetail_body run;
} acc_attention_kernels;
