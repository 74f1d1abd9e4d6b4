"""Where the windows of a convolution or a pooling lie in its images."""

from libc.stdint cimport int64_t

# Of each: height, width.
cdef struct windows:
    int64_t in_size[2]
    int64_t out_size[2]
    int64_t kernel[2]
    int64_t stride[2]
    int64_t dilation[2]
    int64_t padding[2]      # top, left


cdef inline int fill_windows(
    windows *at, object descriptor, object images, object results, object kernel, int spatial
) except -1:
    """Fill in the geometry; `spatial` and `spatial + 1` are the height and width axes."""
    cdef int axis
    for axis in range(2):
        at.in_size[axis], at.out_size[axis] = images[spatial + axis], results[spatial + axis]
        at.kernel[axis], at.stride[axis] = kernel[axis], descriptor.stride[axis]
        at.dilation[axis], at.padding[axis] = descriptor.dilation[axis], descriptor.padding[axis]
    return 0
