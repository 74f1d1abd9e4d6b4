"""How the results of a window are shared out in rectangles, and what each reads."""

from libc.stdint cimport int64_t

from dovetail_neon.geometry.window cimport acc_window
from dovetail_neon.workload.rounding cimport parts

cdef enum:
    MAX_COPIES = 4              # of each pixel


cdef inline int64_t reach(int64_t results, int64_t stride, int64_t kernel, int64_t dilation) noexcept:
    """Return how many pixels so many windows side by side read, or lie between those they read."""
    cdef int64_t of_tap = (results - 1) * stride + 1
    return of_tap + (kernel - 1) * min(dilation, of_tap)


cdef inline int64_t frame_pixels(const acc_window *w, int64_t row_bands, int64_t column_bands, int64_t together=1) noexcept:
    """Return how many pixels the largest rectangle reads; its rows are multiples of `together`."""
    cdef int64_t rows = parts(parts(w.out_height, together), row_bands) * together
    return reach(rows, w.stride_y, w.kernel_height, w.dilation_y) * reach(
        parts(w.out_width, column_bands), w.stride_x, w.kernel_width, w.dilation_x)


cdef inline int cut(
    const acc_window *w, int64_t chunks, int64_t most_pixels, int64_t *row_bands, int64_t *column_bands, int64_t together=1
) except -1:
    """Cut results into about so many rectangles, by rows first.

    There are more where one would otherwise read more than `most_pixels`, unless that is 0, or all
    together would read the same pixels too often.
    """
    cdef int64_t rows = parts(w.out_height, together), row, column
    cdef double enough = MAX_COPIES * (<double>w.in_height * w.in_width + <double>w.out_height * w.out_width)
    row_bands[0] = max(min(chunks, rows), 1)
    column_bands[0] = max(min(parts(chunks, row_bands[0]), w.out_width), 1)
    while most_pixels and frame_pixels(w, row_bands[0], column_bands[0], together) > most_pixels:
        row, column = row_bands[0], column_bands[0]
        if row < rows:
            row = min(2 * row, rows)
        elif column < w.out_width:
            column = min(2 * column, w.out_width)
        else:
            break
        if <double>row * column * frame_pixels(w, row, column, together) > enough and (
                frame_pixels(w, row_bands[0], column_bands[0], together) <= 16 * most_pixels):
            break
        row_bands[0], column_bands[0] = row, column
    return 0
