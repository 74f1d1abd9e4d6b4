"""The activation functions of `activations.h`, and how a state names one."""


cdef extern from "activations.h" nogil:
    enum:
        ACTIVATION_NONE
        ACTIVATION_LINEAR
        ACTIVATION_RELU
        ACTIVATION_BOUNDED_RELU

    int activation_by_name(const char *name)
    double activate(int function, double x, double alpha, double beta)


ctypedef struct FusedFunction:
    # What is applied to a result before it is stored; `code` is ACTIVATION_NONE for nothing.
    int code
    double alpha
    double beta


cdef inline int activation_code(object function) except -1:
    """Code of an `ActivationFunction`, or of None."""
    cdef int code = ACTIVATION_NONE if function is None else activation_by_name(str(function).encode())
    if code < 0:
        raise ValueError(f"{function!r} is not an activation function that CpuRef knows")
    return code


cdef inline FusedFunction fused_function(object descriptor) except *:
    """The fused activation of a descriptor that derives from `FusedActivation`."""
    cdef FusedFunction result
    result.code = activation_code(descriptor.activation)
    result.alpha = descriptor.activation_alpha
    result.beta = descriptor.activation_beta
    return result


cdef inline double apply(const FusedFunction *function, double x) noexcept nogil:
    """Apply, if there is anything to apply."""
    return x if function.code == ACTIVATION_NONE else activate(function.code, x, function.alpha, function.beta)
