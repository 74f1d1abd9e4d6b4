/* Products of two matrices that are both computed. */
#pragma once

#include "dovetail_neon/workload/job.h"

/* Output: 0, [batches, rows, columns]. The left matrices are [rows, depth] or, `left_transposed`,
 * [depth, rows]; the right ones [depth, columns] or, `right_transposed`, [columns, depth]. All are
 * C-contiguous. Columns are shared out to `panels` panels of vectors as even as can be: panel g
 * begins at vector vectors * g / panels. */
typedef struct {
    int64_t batches, rows, columns, depth;
    int32_t left, right;            /* which inputs */
    int32_t left_transposed, right_transposed;
    int64_t left_step, right_step;  /* 1: each batch has its own matrix; 0: all share one */
    const int64_t *left_matrix;     /* or which matrix each batch has */
    const int64_t *right_matrix;
    int64_t panels;
    int64_t chunks;                 /* of the rows; of the columns, where there are few rows */
    int64_t packed_left;            /* where they lie in the workspace, in elements */
    int64_t packed_right;
    int64_t rows_at_once;           /* of results, between two looks at the stop word */
} acc_matmul;

typedef struct {
    /* Largest number of vectors in a panel, and rows that a tile with so many holds. */
    int32_t vectors;
    int32_t rows;
    /* Largest number of rows of `dots`. */
    int32_t dot_rows;
    /* And of `few`, where the right matrix fits no cache. */
    int32_t few_rows;
    /* Left matrices that are transposed become [rows, depth]; range: matrices * vectors of rows. */
    dovetail_body pack_left;
    /* Right matrices become panels of [depth, vectors, LANES]; range: matrices * vectors of
     * columns. */
    dovetail_body pack_right;
    dovetail_body pack_right_transposed;
    /* Range of these: batches * panels * chunks of rows. The left matrices lie as [rows, depth] or
     * were packed. */
    dovetail_body packed;
    dovetail_body direct;           /* right matrices [depth, columns] as they lie */
    /* Few rows, right matrices [depth, columns], read in order; range: batches * chunks of columns.
     * */
    dovetail_body few;
    /* Few rows, right matrices [columns, depth]; range: batches * chunks of columns. */
    dovetail_body dots;
} acc_matmul_kernels;
