"""What recurrent layers are made of: products by weights that stay packed, and their gates.

Everything in between is double: inputs are converted when they are packed or loaded, results are
rounded when they are stored.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t

from dovetail_reference.workloads.activations cimport FusedFunction, apply
from dovetail_reference.workloads.elements cimport real
from dovetail_reference.workloads.product cimport DEPTH_AT_ONCE, TILE_COLUMNS, TILE_ROWS, product_double
from dovetail_reference.workloads.walking cimport errand, go_on

cdef struct Matrix:
    # Weights [lines][depth] of a tensor, packed from its line `first` on.
    int64_t first
    int64_t lines
    int64_t depth
    int64_t place           # of the packed panels, in doubles


cdef inline int64_t panels_of(int64_t lines) noexcept nogil:
    """Return how many panels hold so many lines."""
    return (lines + TILE_COLUMNS - 1) // TILE_COLUMNS


cdef inline void pack_panel(
    const Matrix *m, int64_t panel, int64_t begin, int64_t n, const real *weights, double *packed
) noexcept nogil:
    """Convert n of the depth, from `begin` on, to [n][TILE_COLUMNS]; missing lines give zeros."""
    cdef int64_t j, k, line = panel * TILE_COLUMNS
    cdef const real *source = weights + (m.first + line) * m.depth + begin
    for j in range(TILE_COLUMNS):
        if line + j < m.lines:
            for k in range(n):
                packed[k * TILE_COLUMNS + j] = <double>source[j * m.depth + k]
        else:
            for k in range(n):
                packed[k * TILE_COLUMNS + j] = 0.0


cdef inline void pack_matrix(const Matrix *m, const real *weights, double *packed, errand *run) noexcept nogil:
    """Pack all panels, [panels][depth][TILE_COLUMNS]."""
    cdef int64_t panel, begin, n
    for panel in range(panels_of(m.lines)):
        begin = 0
        while begin < m.depth:
            n = min(<int64_t>DEPTH_AT_ONCE, m.depth - begin)
            if not go_on(run, n):
                return
            pack_panel(m, panel, begin, n, weights, packed + (panel * m.depth + begin) * TILE_COLUMNS)
            begin += n


cdef inline void pack_rows(const double *rows, int64_t stride, int64_t count, int64_t n, double *packed) noexcept nogil:
    """Convert n of the depth of `count` rows to [n][TILE_ROWS]; missing ones give zeros."""
    cdef int64_t k, r
    for r in range(TILE_ROWS):
        for k in range(n):
            packed[k * TILE_ROWS + r] = rows[r * stride + k] if r < count else 0.0


cdef inline void add_tile(const double *sums, int64_t rows, int64_t columns, double *out, int64_t stride) noexcept nogil:
    """Add a tile of sums to what is there."""
    cdef int64_t r, c
    for r in range(rows):
        for c in range(columns):
            out[r * stride + c] += sums[r * TILE_COLUMNS + c]


cdef inline void add_products(
    const Matrix *m, const double *panels, const double *rows, int64_t count, double *packed, double *out, int64_t stride,
    errand *run,
) noexcept nogil:
    """Add `count` rows [count][depth] times a packed matrix to `out`, its rows `stride` apart.

    `packed` has room for TILE_ROWS rows of a depth that is multiplied at once.
    """
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS
    cdef int64_t row, begin, n, tile, panel, height
    for tile in range((count + TILE_ROWS - 1) // TILE_ROWS):
        row, begin = tile * TILE_ROWS, 0
        height = min(<int64_t>TILE_ROWS, count - row)
        while begin < m.depth:
            n = min(<int64_t>DEPTH_AT_ONCE, m.depth - begin)
            pack_rows(rows + row * m.depth + begin, m.depth, height, n, packed)
            for panel in range(panels_of(m.lines)):
                if not go_on(run, n):
                    return
                product_double(n, packed, panels + (panel * m.depth + begin) * TILE_COLUMNS, sums, 0)
                add_tile(
                    sums, height, min(<int64_t>TILE_COLUMNS, m.lines - panel * TILE_COLUMNS),
                    out + row * stride + panel * TILE_COLUMNS, stride,
                )
            begin += n


cdef inline double within(double x, double limit) noexcept nogil:
    """Cut off to [-limit, limit]; NaN stays."""
    return -limit if x < -limit else limit if x > limit else x


cdef inline void normalize(double *values, const double *scale, int64_t n, double epsilon) noexcept nogil:
    """Subtract the mean, divide by the root of the variance plus epsilon, and scale."""
    cdef double mean = 0.0, variance = 0.0, inverse
    cdef int64_t i
    for i in range(n):
        mean += values[i]
    mean /= n
    for i in range(n):
        variance += (values[i] - mean) * (values[i] - mean)
    inverse = 1.0 / sqrt(variance / n + epsilon)
    for i in range(n):
        values[i] = (values[i] - mean) * inverse * scale[i]


cdef inline void finish_gate(
    double *values, int64_t n, const double *scale, double epsilon, const double *bias, double limit,
    const FusedFunction *function, errand *run,
) noexcept nogil:
    """Turn sums into a gate: normalize, add the bias, cut off, apply the function.

    `scale` or `bias` may be NULL.
    """
    cdef int64_t i
    if scale != NULL and n > 0:
        normalize(values, scale, n, epsilon)
    for i in range(n):
        if i % 4096 == 0 and not go_on(run, 4 * min(<int64_t>4096, n - i)):     # a function takes its time
            return
        values[i] = apply(function, within(values[i] + (bias[i] if bias != NULL else 0.0), limit))
