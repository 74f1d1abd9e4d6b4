"""Windows over images, as kernels are told of them."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "dovetail_neon/geometry/window.h" nogil:
    ctypedef struct acc_window:
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t kernel_height
        int64_t kernel_width
        int64_t stride_y
        int64_t stride_x
        int64_t dilation_y
        int64_t dilation_x
        int64_t padding_top
        int64_t padding_left

    int64_t acc_window_taps(const acc_window *window)
    int32_t acc_window_reaches_out(const acc_window *window)
    void acc_window_flatten(acc_window *window)


cdef inline int fill_window(acc_window *window, object descriptor) except -1:
    """Fill in the window of a private layer from its `source`, `target` and `geometry`."""
    kernel, stride, dilation, padding = descriptor.geometry
    window.in_height, window.in_width = descriptor.source[2], descriptor.source[3]
    window.out_height, window.out_width = descriptor.target[2], descriptor.target[3]
    window.kernel_height, window.kernel_width = kernel
    window.stride_y, window.stride_x = stride
    window.dilation_y, window.dilation_x = dilation
    window.padding_top, window.padding_left = padding
    return 0
