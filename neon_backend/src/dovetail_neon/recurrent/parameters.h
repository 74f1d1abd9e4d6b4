/* Recurrent layers: over sequences, one step after the other, with weights that were packed once.
 *
 * The inputs of some steps are multiplied at once; then the states, step by step. Their range is 1:
 * a body shares loops out itself where that pays.
 */
#pragma once

#include "dovetail_neon/elementwise/activation.h"
#include "dovetail_neon/workload/job.h"
#include "dovetail_neon/workload/packing.h"

/* Weights [rows, depth], packed into panels of at most ACC_PANEL vectors of rows, as even as can
 * be; what they are multiplied with lies in rows of `step` bytes, of which the last are padding. */
enum { ACC_PANEL = 8 };

typedef struct {
    int64_t rows, depth;
    int64_t step;               /* bytes, from row to row of what is multiplied */
    int64_t pieces;             /* of 16 bytes that a row of bytes is read in; of floats: elements */
    int64_t vectors, panels;    /* of rows */
    const char *packed;
    const void *begins;         /* [vectors * LANES]: what sums begin with, int32 or float32 */
    int32_t shares;             /* threads share out its products with one state of each sequence */
    int32_t reserved;
} acc_recurrent_matrix;

/* --- integers --- */

/* A real factor: multiplier * 2^(shift - 31). */
typedef struct {
    int32_t multiplier, shift;
} acc_fixed_factor;

/* Gates of an LSTM of integers. Rows of weights are in this order; without an input gate they begin
 * with the forget gate. */
enum { ACC_INPUT_GATE = 0, ACC_FORGET_GATE, ACC_CELL_GATE, ACC_OUTPUT_GATE, ACC_GATES };

/* Inputs: int8 sequences, [steps, batch, inputs] or the first two axes the other way round, the
 * first hidden states [batch, hidden], and int16 cell states [batch, units]. Outputs: all hidden
 * states, the last ones, and the last cell states. */
typedef struct {
    int64_t steps, batch, inputs, units, hidden;
    int64_t ahead;                          /* steps whose inputs are multiplied at once */
    int32_t batch_first;
    int32_t first_gate;                     /* ACC_FORGET_GATE: the input gate is 1 - the forget gate */
    int32_t cell_bits;                      /* integer ones of the cell's numbers */
    int32_t cell_clip;                      /* 0: none */
    int32_t projection_clip;
    int32_t hidden_zero;                    /* zero point of a projected hidden state */
    int32_t made_zero;                      /* what is added to a hidden state, or to what is projected */
    int32_t shares_inputs;                  /* threads share out the products of the inputs */
    int32_t shares_gates;
    int32_t projects;                       /* a projection may have no rows */
    acc_recurrent_matrix weights, recurrent, projected;
    acc_fixed_factor of_input[ACC_GATES], of_hidden[ACC_GATES], of_cell[ACC_GATES], of_norm[ACC_GATES];
    acc_fixed_factor of_made, of_projection;
    int32_t least_variance[ACC_GATES];
    const int32_t *peepholes;               /* [gates][units], or NULL; so are the next two */
    const int32_t *normalization;
    const int32_t *bias;                    /* of what was normalized */
    /* Where they lie in the workspace, in bytes. */
    int64_t rows_place;                     /* [ahead * batch] rows of inputs, as they are multiplied */
    int64_t given_place;                    /* [ahead * batch][gates * units], int32: gates of the inputs */
    int64_t sums_place;                     /* [batch][gates * units], int32 */
    int64_t values_place;                   /* [batch][ACC_GATES][units], int32: gates to be normalized */
    int64_t state_place;                    /* [batch] rows */
    int64_t made_place;                     /* [batch] rows, of what is projected */
    int64_t cell_place;                     /* [batch][units], int32 */
    int64_t units_step;                     /* units, in whole vectors */
} acc_quantized_lstm;

/* Inputs: int8 rows [batch, features.depth] and int16 states [batch, filters * steps]. Outputs:
 * int8 results [batch, units] and the next states. */
typedef struct {
    int64_t batch, filters, steps, rank, units;
    int64_t at_once;                        /* sequences whose inputs are multiplied at once */
    int32_t result_zero;
    int32_t shares_sequences;               /* threads share out what follows */
    acc_recurrent_matrix features;
    acc_fixed_factor of_features, of_totals;
    const int16_t *times;                   /* [filters][steps], and room to read a vector behind them */
    const int32_t *bias;                    /* [units], in whole vectors */
    int64_t units_step;                     /* units, in whole vectors */
    /* Where they lie in the workspace, in bytes. */
    int64_t rows_place;                     /* [at_once] rows of inputs, as they are multiplied */
    int64_t sums_place;                     /* [at_once][filters], int32 */
    int64_t totals_place;                   /* [at_once][units], int32 */
} acc_quantized_svdf;

typedef struct {
    /* By depth: 0 halves, 1 quads or NULL. */
    dovetail_body lstm[2];
    dovetail_body svdf[2];
    void (*pack[2])(const int8_t *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix, char *packed,
                    acc_packing *packing);
} acc_quantized_recurrent_kernels;

/* --- float32 --- */

enum { ACC_RNN = 0, ACC_GRU, ACC_LSTM };

/* Inputs: sequences as above, and the first states if their numbers are not negative. Outputs: all
 * hidden states, the last ones and, of an LSTM, the last cell states. Sums of an input begin with
 * the bias, those of a state with the recurrent bias. Blocks of rows of weights are those of `Gru`
 * and `Lstm`. */
typedef struct {
    int64_t steps, batch, inputs, units, hidden, gates;
    int64_t ahead;                          /* steps whose inputs are multiplied at once */
    int32_t kind;
    int32_t batch_first;
    int32_t reverse;
    int32_t reset_after;
    int32_t initial_hidden, initial_cell;
    int32_t input_gate, output_gate, forget_gate;       /* blocks; -1: made of another one */
    int32_t shares_inputs;                  /* threads share out the products of the inputs */
    int32_t shares_gates;
    int32_t projects;                       /* a projection may have no rows */
    acc_activation gate, cell, output;
    float gate_clip, cell_clip, projection_clip;        /* infinite: none */
    float epsilon;
    acc_recurrent_matrix weights, recurrent, candidate, projected;      /* of no rows if not there */
    const float *peepholes;                 /* [gates - 1][units], or NULL */
    const float *normalization;             /* [gates][units], or NULL */
    const float *bias;                      /* of what was normalized, or NULL */
    /* Where they lie in the workspace, in elements. */
    int64_t rows_place;                     /* [ahead * batch] rows of inputs */
    int64_t given_place;                    /* [ahead * batch][gates * units] */
    int64_t sums_place;                     /* [batch][gates * units], of the state */
    int64_t later_place;                    /* [batch]: candidates, or projected states */
    int64_t hidden_place;                   /* [batch] rows */
    int64_t made_place;                     /* [batch] rows, of what is projected or of a candidate */
    int64_t made_step;
    int64_t cell_place;                     /* [batch][units] */
} acc_recurrence;

typedef struct {
    dovetail_body recurrence;
    void (*pack)(const float *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix, float *packed,
                 acc_packing *packing);
} acc_recurrent_kernels;
