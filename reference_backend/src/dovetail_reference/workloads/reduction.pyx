"""Reduce and CumulativeSum.

Floats are accumulated in double, in row-major order of the reduced axes, and rounded once. Integers
are accumulated modulo 2^64 and stored modulo 2^bits; their MEAN truncates toward zero, and their
L2, LOG_SUM and LOG_SUM_EXP are computed in double and truncated. MAX and MIN: NaN wins. Quantized
int8 and uint8: SUM, MAX and MIN of the real numbers, rounded half away from zero; MEAN in fixed
point, as TensorFlow Lite's reference_ops::QuantizedMeanOrSum does it, as long as the sum fits into
int32. (The SUM of the same function is faulty for int8; ours is that of LiteRT's optimized
kernels.)
"""

from libc.math cimport INFINITY, exp, fabs, isinf, log, round, sqrt
from libc.stdint cimport int32_t, int64_t, uint64_t

from dovetail.abi cimport dovetail_call
from dovetail_reference.workloads.blocks cimport REAL, SIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.requantize cimport requantization, requantization_of, requantize
from dovetail_reference.workloads.walking cimport BLOCK, errand, go_on, plan_walk, run_errand, run_walk, walk
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

from dovetail import DType
from dovetail.layers import CumulativeSum, ReduceFunction

from .quantized import integer_range
from .strides import contiguous, without

cdef enum function:
    SUM
    MEAN
    MAX
    MIN
    PROD
    L1
    L2
    SUM_SQUARE
    LOG_SUM
    LOG_SUM_EXP

_CODES = {
    ReduceFunction.SUM: SUM,
    ReduceFunction.MEAN: MEAN,
    ReduceFunction.MAX: MAX,
    ReduceFunction.MIN: MIN,
    ReduceFunction.PROD: PROD,
    ReduceFunction.L1: L1,
    ReduceFunction.L2: L2,
    ReduceFunction.SUM_SQUARE: SUM_SQUARE,
    ReduceFunction.LOG_SUM: LOG_SUM,
    ReduceFunction.LOG_SUM_EXP: LOG_SUM_EXP,
}


def create(layer, dtype):
    """Make the workload capsule."""
    info, result = layer.inputs[0].info, layer.output.known_info
    if isinstance(layer.descriptor, CumulativeSum):
        return _create_cumulative_sum(layer.descriptor, info)
    return _create_reduce(layer.descriptor, info, result)


# -- reduce ----------------------------------------------------------------------------------------


cdef struct reduce_state:
    walk kept           # operands: input, output
    walk reduced        # operand: input
    Element kind
    function wanted
    bint real           # accumulate doubles
    bint rescaled       # the result is quantized otherwise than the input
    int64_t count       # elements that become one
    double scale        # of the input by that of the output
    bint fixed_point    # the mean of quantized elements
    requantization mean # from their sum to their mean
    double zero
    double result_zero
    double low
    double high


cdef struct accumulator:
    const reduce_state *state
    double real
    double greatest     # of LOG_SUM_EXP
    bint searching      # for the greatest
    int64_t whole


cdef void real_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef accumulator *self = <accumulator *>arg
    cdef function wanted = MAX if self.searching else self.state.wanted
    cdef double values[BLOCK]
    cdef double total = self.real
    cdef int64_t i
    load_reals(self.state.kind, at[0], steps[0], n, values)
    for i in range(n):
        if wanted == MAX:
            total = values[i] if values[i] > total or values[i] != values[i] else total
        elif wanted == MIN:
            total = values[i] if values[i] < total or values[i] != values[i] else total
        elif wanted == PROD:
            total *= values[i]
        elif wanted == L1:
            total += fabs(values[i])
        elif wanted == L2 or wanted == SUM_SQUARE:
            total += values[i] * values[i]
        elif wanted == LOG_SUM_EXP:
            total += exp(values[i] - self.greatest)
        else:
            total += values[i]
    self.real = total


cdef void whole_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef accumulator *self = <accumulator *>arg
    cdef function wanted = self.state.wanted
    cdef bint is_signed = domain_of(self.state.kind) == SIGNED
    cdef int64_t values[BLOCK]
    cdef uint64_t total = <uint64_t>self.whole, value
    cdef int64_t i
    load_wholes(self.state.kind, at[0], steps[0], n, values)
    for i in range(n):
        value = <uint64_t>values[i]
        if wanted == MAX:
            total = value if (values[i] > <int64_t>total if is_signed else value > total) else total
        elif wanted == MIN:
            total = value if (values[i] < <int64_t>total if is_signed else value < total) else total
        elif wanted == PROD:
            total *= value
        elif wanted == L1:
            total += 0 - value if is_signed and values[i] < 0 else value
        elif wanted == SUM_SQUARE:
            total += value * value
        else:
            total += value
    self.whole = <int64_t>total


cdef double reduced_real(accumulator *run, char **at, const dovetail_call *call, int *code) noexcept nogil:
    cdef const reduce_state *self = run.state
    if self.wanted == LOG_SUM_EXP:
        # exp(x - greatest) neither overflows nor vanishes altogether.
        run.searching, run.real = True, -INFINITY
        code[0] = run_walk(&self.reduced, at, real_row, run, call)
        run.searching, run.greatest = False, run.real
        if code[0] != 0 or isinf(run.greatest):
            return run.greatest
    run.real = -INFINITY if self.wanted == MAX else INFINITY if self.wanted == MIN else 1.0 if self.wanted == PROD else 0.0
    code[0] = run_walk(&self.reduced, at, real_row, run, call)
    if self.wanted == MEAN:
        return run.real / <double>self.count
    if self.wanted == L2:
        return sqrt(run.real)
    if self.wanted == LOG_SUM:
        return log(run.real)
    if self.wanted == LOG_SUM_EXP:
        return run.greatest + log(run.real)
    return run.real


cdef int64_t reduced_whole(accumulator *run, char **at, const dovetail_call *call, int *code) noexcept nogil:
    cdef const reduce_state *self = run.state
    cdef bint is_signed = domain_of(self.kind) == SIGNED
    if self.wanted == MAX:
        run.whole = <int64_t>self.low if is_signed else 0
    elif self.wanted == MIN:
        # All ones are the greatest value of every unsigned type; bool stores them as 1.
        run.whole = greatest_signed(self) if is_signed else -1
    else:
        run.whole = self.wanted == PROD
    code[0] = run_walk(&self.reduced, at, whole_row, run, call)
    if self.wanted == MEAN:
        if self.count == 0:
            return 0
        return run.whole // self.count if is_signed else <int64_t>(<uint64_t>run.whole // <uint64_t>self.count)
    return run.whole


cdef inline int64_t greatest_signed(const reduce_state *self) noexcept nogil:
    """The greatest value of the element type, which as a double would be rounded for int64."""
    return -(<int64_t>self.low + 1)


cdef void reduce_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef reduce_state *self = <reduce_state *>run.state
    cdef accumulator current
    cdef char *position[1]
    cdef char *target
    cdef double real
    cdef int64_t i, whole
    cdef int code = 0
    current.state, current.searching, current.greatest = self, False, 0.0
    for i in range(n):
        if not go_on(run, self.count + 16):
            return
        position[0], target = at[0] + i * steps[0], at[1] + i * steps[1]
        if self.real:
            real = reduced_real(&current, position, run.call, &code)
            if self.fixed_point:
                whole = <int64_t>current.real - <int64_t>self.zero * self.count
                real = <double>requantize(<int32_t>whole, self.mean) + self.result_zero
                real = min(max(real, self.low), self.high)
            elif self.rescaled:
                real = real - self.zero * (<double>self.count if self.wanted == SUM else 1.0)
                real = round(real * self.scale) + self.result_zero
                real = self.result_zero if real != real else min(max(real, self.low), self.high)
            store_reals(self.kind, &real, 1, target, 0)
        else:
            whole = reduced_whole(&current, position, run.call, &code)
            store_wholes(self.kind, &whole, False, 1, target, 0)
        if code != 0:
            run.code = code
            return


cdef int execute_reduce(void *state, const dovetail_call *call) noexcept nogil:
    return run_errand(&(<reduce_state *>state).kept, reduce_row, state, call)


cdef requantization mean_factor(double scale, int64_t count) except *:
    """Return the scale of a mean of `count` elements, for their sum.

    The fraction is divided, and truncated, as an integer.
    """
    cdef requantization by = requantization_of(scale)
    cdef int shift = 0
    if count > 0:
        while count >> (shift + 1):
            shift += 1
        shift = min(shift, 32, 31 + by.shift)
        by.multiplier = <int32_t>((<int64_t>by.multiplier << shift) // count)
        by.shift -= shift
    return by


cdef object _create_reduce(object descriptor, object info, object result):
    capsule = new_workload(execute_reduce, sizeof(reduce_state))
    cdef reduce_state *self = <reduce_state *>state_of(capsule)
    itemsize = info.dtype.itemsize
    strides = contiguous(info.sizes, itemsize)
    reduced = descriptor.reduced_axes(info.rank)
    kept = [axis for axis in range(info.rank) if axis not in reduced]
    self.kind = element_of(info.dtype)
    self.wanted = <function><int>_CODES[descriptor.function]
    self.real = domain_of(self.kind) == REAL or self.wanted in (L2, LOG_SUM, LOG_SUM_EXP)
    if not info.dtype.is_float:
        low, high = (0, 1) if info.dtype is DType.BOOL else integer_range(info.dtype)
        self.low, self.high = low, high
    if info.quantization is not None:
        self.real = self.rescaled = True
        self.scale = info.quantization.scale[0] / result.quantization.scale[0]
        self.zero, self.result_zero = info.quantization.zero_point[0], result.quantization.zero_point[0]
    self.count = 1
    for axis in reduced:
        self.count *= info.sizes[axis]
    if self.rescaled and self.wanted == MEAN and self.count <= 1 << 23:
        self.fixed_point = True
        self.mean = mean_factor(self.scale, self.count)
    shape = [info.sizes[axis] for axis in kept]
    plan_walk(&self.kept, shape, ([strides[axis] for axis in kept], contiguous(shape, itemsize)))
    plan_walk(&self.reduced, [info.sizes[axis] for axis in reduced], ([strides[axis] for axis in reduced],))
    return capsule


# -- running sum -----------------------------------------------------------------------------------


cdef struct running_state:
    walk lines          # operands: input, output; one position for each line along the axis
    Element kind
    bint exclusive
    int64_t length
    int64_t first       # bytes to the first element of a line, in the order of summing
    int64_t step        # bytes to the next


cdef void running_line(running_state *self, const char *source, char *target, errand *run) noexcept nogil:
    cdef double reals[BLOCK]
    cdef int64_t wholes[BLOCK]
    cdef double real = 0.0, value
    cdef uint64_t whole = 0, element
    cdef int64_t done = 0, n, i
    while done < self.length:
        n = min(<int64_t>BLOCK, self.length - done)
        if not go_on(run, n):
            return
        if domain_of(self.kind) == REAL:
            load_reals(self.kind, source + done * self.step, self.step, n, reals)
            for i in range(n):
                value = reals[i]
                reals[i] = real if self.exclusive else real + value
                real += value
            store_reals(self.kind, reals, n, target + done * self.step, self.step)
        else:
            load_wholes(self.kind, source + done * self.step, self.step, n, wholes)
            for i in range(n):
                element = <uint64_t>wholes[i]
                wholes[i] = <int64_t>(whole if self.exclusive else whole + element)
                whole += element
            store_wholes(self.kind, wholes, False, n, target + done * self.step, self.step)
        done += n


cdef void running_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef running_state *self = <running_state *>run.state
    cdef int64_t i
    for i in range(n):
        running_line(self, at[0] + i * steps[0] + self.first, at[1] + i * steps[1] + self.first, run)


cdef int execute_running(void *state, const dovetail_call *call) noexcept nogil:
    return run_errand(&(<running_state *>state).lines, running_row, state, call)


cdef object _create_cumulative_sum(object descriptor, object info):
    capsule = new_workload(execute_running, sizeof(running_state))
    cdef running_state *self = <running_state *>state_of(capsule)
    axis = descriptor.axis % info.rank
    strides = contiguous(info.sizes, info.dtype.itemsize)
    outer = without(strides, axis)
    self.kind = element_of(info.dtype)
    self.exclusive = descriptor.exclusive
    self.length, self.step = info.sizes[axis], strides[axis]
    if descriptor.reverse:
        self.first, self.step = (self.length - 1) * self.step, -self.step
    plan_walk(&self.lines, without(info.sizes, axis), (outer, outer))
    allow_in_place(capsule)
    return capsule
