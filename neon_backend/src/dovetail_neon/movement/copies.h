/* What only moves elements, of 1, 2, 4 or 8 bytes, between plain tensors.
 *
 * Elements are read and written by memcpy: what is moved as one element of 8 bytes may be two of 4,
 * with their alignment.
 */
#pragma once

#include "dovetail_neon/movement/parameters.h"
#include "dovetail_neon/workload/spans.h"
#include "dovetail_neon/vectors/transpose.h"

namespace dovetail_acc::ACC_ISA {

constexpr int64_t LONG_COLUMNS = 1 << 14;

template <typename T> INLINE void put(char *at, T x) { __builtin_memcpy(at, &x, sizeof(T)); }

template <typename T> static void move_strided(const acc_move &m, const char *in, char *out, int64_t count) {
    const int64_t a = m.source_step, b = m.target_step;
    if (a == 0) {
        const T x = load_as<T>(in);
        if (b == sizeof(T)) {
            int64_t i = 0;
            for (; i + 64 <= count; i += 64)    /* a constant count, so that it is vectorized */
                for (int k = 0; k < 64; k++) put<T>(out + (i + k) * (int64_t)sizeof(T), x);
            for (; i < count; i++) put<T>(out + i * (int64_t)sizeof(T), x);
        } else
            for (int64_t i = 0; i < count; i++) put<T>(out + i * b, x);
    } else if (b == sizeof(T)) {
        for (int64_t i = 0; i < count; i++) put<T>(out + i * (int64_t)sizeof(T), load_as<T>(in + i * a));
    } else {
        for (int64_t i = 0; i < count; i++) put<T>(out + i * b, load_as<T>(in + i * a));
    }
}

/* The rows of a chunk are few, but may be long. */
INLINE bool stops_at_column(const acc_job *job, int64_t column) {
    return __builtin_expect(column && column % LONG_COLUMNS == 0, 0) && acc_stopped(job);
}

/* In squares, so that every cache line is used up while it is there. */
template <typename T> static void move_transposed(const acc_job *job, const acc_move &m, const char *in, char *out, int64_t rows) {
    constexpr int64_t side = 64 / (int64_t)sizeof(T) < 32 ? 64 / (int64_t)sizeof(T) : 32;
    for (int64_t r = 0; r < rows; r += side) {
        const int64_t last_row = lesser(rows, r + side);
        for (int64_t c = 0; c < m.columns; c += side) {
            if (stops_at_column(job, c)) return;
            const int64_t last_column = lesser(m.columns, c + side);
            for (int64_t i = r; i < last_row; i++)
                for (int64_t k = c; k < last_column; k++)
                    put<T>(out + i * m.target_step + k * (int64_t)sizeof(T),
                           load_as<T>(in + i * (int64_t)sizeof(T) + k * m.column_step));
        }
    }
}

static void move_transposed_columns(const acc_move &m, const char *in, char *out, int64_t rows, int64_t begin, int64_t end) {
    /* Rows innermost: neighbouring cache lines of the source are read together. */
    for (int64_t c = begin; c < end; c += LANES) {
        const int width = (int)lesser<int64_t>(LANES, end - c);
        for (int64_t r = 0; r < rows; r += LANES) {
            const int height = (int)lesser<int64_t>(LANES, rows - r);
            const char *from = in + r * (int64_t)sizeof(float) + c * m.column_step;
            char *to = out + r * m.target_step + c * (int64_t)sizeof(float);
            Vector x[LANES];
            if (height == LANES && width == LANES) {
                for (int k = 0; k < LANES; k++) x[k] = load((const float *)(from + k * m.column_step));
                transpose(x);
                for (int k = 0; k < LANES; k++) store((float *)(to + k * m.target_step), x[k]);
                continue;
            }
            for (int k = 0; k < LANES; k++)
                x[k] = k < width ? load_part((const float *)(from + k * m.column_step), height) : zeros();
            transpose(x);
            for (int k = 0; k < height; k++) store_part((float *)(to + k * m.target_step), x[k], width);
        }
    }
}

static void move_transposed_floats(const acc_job *job, const acc_move &m, const char *in, char *out, int64_t rows) {
    for (int64_t c = 0; c < m.columns; c += LONG_COLUMNS) {
        if (stops_at_column(job, c)) return;
        move_transposed_columns(m, in, out, rows, c, lesser(m.columns, c + LONG_COLUMNS));
    }
}

/* Rows [first, first + count) of the innermost part. */
static void move_inner(const acc_job *job, const acc_move &m, const char *in, char *out, int64_t first, int64_t count) {
    if (m.method == ACC_RUN) {
        if (out != in) __builtin_memcpy(out + first, in + first, (size_t)count);
        return;
    }
    out += first * m.target_step;
    if (m.method == ACC_STRIDED) {
        in += first * m.source_step;
        switch (m.element) {
        case 1: move_strided<uint8_t>(m, in, out, count); break;
        case 2: move_strided<uint16_t>(m, in, out, count); break;
        case 4: move_strided<uint32_t>(m, in, out, count); break;
        default: move_strided<uint64_t>(m, in, out, count); break;
        }
        return;
    }
    in += first * m.element;
    if (m.method == ACC_TRANSPOSED_FLOATS) {
        move_transposed_floats(job, m, in, out, count);
        return;
    }
    switch (m.element) {
    case 1: move_transposed<uint8_t>(job, m, in, out, count); break;
    case 2: move_transposed<uint16_t>(job, m, in, out, count); break;
    case 4: move_transposed<uint32_t>(job, m, in, out, count); break;
    default: move_transposed<uint64_t>(job, m, in, out, count); break;
    }
}

/* Items [begin, end) of one move. */
static void move_items(const acc_job *job, const acc_move &m, const char *in, char *out, int64_t begin, int64_t end) {
    int64_t index[ACC_MOVED_AXES], chunk = begin % m.chunks, rest = begin / m.chunks;
    in += m.source_offset, out += m.target_offset;
    for (int axis = m.rank - 1; axis >= 0; axis--) {
        index[axis] = rest % m.sizes[axis], rest /= m.sizes[axis];
        in += index[axis] * m.source_steps[axis], out += index[axis] * m.target_steps[axis];
    }
    for (int64_t item = begin;;) {
        const int64_t first = chunk * m.stripe;
        move_inner(job, m, in, out, first, lesser(m.stripe, m.length - first));
        if (++item == end) return;
        if (++chunk < m.chunks) continue;
        chunk = 0;
        for (int axis = m.rank - 1; axis >= 0; axis--) {
            in += m.source_steps[axis], out += m.target_steps[axis];
            if (++index[axis] < m.sizes[axis]) break;
            index[axis] = 0;
            in -= m.sizes[axis] * m.source_steps[axis], out -= m.sizes[axis] * m.target_steps[axis];
        }
    }
}

static void move(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_moves &s = *(const acc_moves *)job->parameters;
    for (int64_t i = 0; i < s.count && begin < end; i++) {
        const acc_move &m = s.moves[i];
        if (begin >= m.first_item + m.items) continue;
        const int64_t last = lesser(end, m.first_item + m.items);
        move_items(job, m, m.input < 0 ? s.fill : (const char *)job->inputs[m.input], (char *)job->outputs[m.output],
                   begin - m.first_item, last - m.first_item);
        begin = last;
    }
}

INLINE int64_t position_at(const acc_gather &s, const void *positions, int64_t i) {
    return s.wide ? ((const int64_t *)positions)[i] : ((const int32_t *)positions)[i];
}

static int64_t first_outside(const acc_gather *self, const void *positions) {
    for (int64_t i = 0; i < self->total; i++) {
        const int64_t position = position_at(*self, positions, i);
        if (position < -self->size || position >= self->size) return i;
    }
    return -1;
}

template <typename T> INLINE void gather_elements(const acc_gather &s, const acc_job *job, int64_t begin, int64_t end) {
    const char *in = (const char *)job->inputs[0];
    char *out = (char *)job->outputs[0];
    const int64_t lines = s.outer * s.count;
    for (int64_t at = begin; at < end;) {
        const int64_t line = at / s.count, first = at - line * s.count, last = lesser(s.count, first + end - at);
        const int64_t positions = at / lines * s.count;
        const char *from = in + line * s.size * (int64_t)sizeof(T);
        char *to = out + line * s.count * (int64_t)sizeof(T);
        for (int64_t i = first; i < last; i++) {
            int64_t position = position_at(s, job->inputs[1], positions + i);
            position += position < 0 ? s.size : 0;
            put<T>(to + i * (int64_t)sizeof(T), load_as<T>(from + position * (int64_t)sizeof(T)));
        }
        at += last - first;
    }
}

static void gather_slices(int64_t begin, int64_t end, int32_t, void *arg) {
    const acc_job *job = (const acc_job *)arg;
    const acc_gather &s = *(const acc_gather *)job->parameters;
    switch (s.inner) {
    case 1: gather_elements<uint8_t>(s, job, begin, end); return;
    case 2: gather_elements<uint16_t>(s, job, begin, end); return;
    case 4: gather_elements<uint32_t>(s, job, begin, end); return;
    case 8: gather_elements<uint64_t>(s, job, begin, end); return;
    }
    for (int64_t item = begin; item < end; item++) {
        const int64_t row = item / s.chunks, chunk = item % s.chunks;
        const int64_t line = row / s.count, batch = line / s.outer;
        int64_t position = position_at(s, job->inputs[1], batch * s.count + row % s.count);
        position += position < 0 ? s.size : 0;
        const int64_t first = s.inner * chunk / s.chunks, last = s.inner * (chunk + 1) / s.chunks;
        __builtin_memcpy((char *)job->outputs[0] + row * s.inner + first,
                         (const char *)job->inputs[0] + (line * s.size + position) * s.inner + first, (size_t)(last - first));
    }
}

static const acc_movement_kernels movement_kernels = {move, gather_slices, first_outside};

} // namespace dovetail_acc::ACC_ISA
