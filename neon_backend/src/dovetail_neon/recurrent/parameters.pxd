from libc.stdint cimport int8_t, int16_t, int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.elementwise.activation cimport acc_activation
from dovetail_neon.workload.packing cimport acc_packing


cdef extern from "dovetail_neon/recurrent/parameters.h" nogil:
    enum:
        ACC_PANEL
        ACC_INPUT_GATE
        ACC_FORGET_GATE
        ACC_GATES

    ctypedef struct acc_recurrent_matrix:
        int64_t rows
        int64_t depth
        int64_t step
        int64_t pieces
        int64_t vectors
        int64_t panels
        const char *packed
        const void *begins
        int32_t shares

    ctypedef struct acc_fixed_factor:
        int32_t multiplier
        int32_t shift

    ctypedef struct acc_quantized_lstm:
        int64_t steps
        int64_t batch
        int64_t inputs
        int64_t units
        int64_t hidden
        int64_t ahead
        int32_t batch_first
        int32_t first_gate
        int32_t cell_bits
        int32_t cell_clip
        int32_t projection_clip
        int32_t hidden_zero
        int32_t made_zero
        int32_t shares_inputs
        int32_t shares_gates
        int32_t projects
        acc_recurrent_matrix weights
        acc_recurrent_matrix recurrent
        acc_recurrent_matrix projected
        acc_fixed_factor *of_input
        acc_fixed_factor *of_hidden
        acc_fixed_factor *of_cell
        acc_fixed_factor *of_norm
        acc_fixed_factor of_made
        acc_fixed_factor of_projection
        int32_t *least_variance
        const int32_t *peepholes
        const int32_t *normalization
        const int32_t *bias
        int64_t rows_place
        int64_t given_place
        int64_t sums_place
        int64_t values_place
        int64_t state_place
        int64_t made_place
        int64_t cell_place
        int64_t units_step

    ctypedef struct acc_quantized_svdf:
        int64_t batch
        int64_t filters
        int64_t steps
        int64_t rank
        int64_t units
        int64_t at_once
        int32_t result_zero
        int32_t shares_sequences
        acc_recurrent_matrix features
        acc_fixed_factor of_features
        acc_fixed_factor of_totals
        const int16_t *times
        const int32_t *bias
        int64_t units_step
        int64_t rows_place
        int64_t sums_place
        int64_t totals_place

    ctypedef void (*acc_pack_byte_matrix)(
        const int8_t *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix, char *packed,
        acc_packing *packing) noexcept nogil

    ctypedef struct acc_quantized_recurrent_kernels:
        dovetail_body lstm[2]
        dovetail_body svdf[2]
        acc_pack_byte_matrix pack[2]

    enum:
        ACC_RNN
        ACC_GRU
        ACC_LSTM

    ctypedef struct acc_recurrence:
        int64_t steps
        int64_t batch
        int64_t inputs
        int64_t units
        int64_t hidden
        int64_t gates
        int64_t ahead
        int32_t kind
        int32_t batch_first
        int32_t reverse
        int32_t reset_after
        int32_t initial_hidden
        int32_t initial_cell
        int32_t input_gate
        int32_t output_gate
        int32_t forget_gate
        int32_t shares_inputs
        int32_t shares_gates
        int32_t projects
        acc_activation gate
        acc_activation cell
        acc_activation output
        float gate_clip
        float cell_clip
        float projection_clip
        float epsilon
        acc_recurrent_matrix weights
        acc_recurrent_matrix recurrent
        acc_recurrent_matrix candidate
        acc_recurrent_matrix projected
        const float *peepholes
        const float *normalization
        const float *bias
        int64_t rows_place
        int64_t given_place
        int64_t sums_place
        int64_t later_place
        int64_t hidden_place
        int64_t made_place
        int64_t made_step
        int64_t cell_place

    ctypedef void (*acc_pack_float_matrix)(
        const float *weights, int64_t row_step, int64_t column_step, const acc_recurrent_matrix *matrix, float *packed,
        acc_packing *packing) noexcept nogil

    ctypedef struct acc_recurrent_kernels:
        dovetail_body recurrence
        acc_pack_float_matrix pack
