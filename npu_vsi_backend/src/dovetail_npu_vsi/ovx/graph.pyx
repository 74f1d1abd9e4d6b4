"""A graph of ovxlib, and the binary that is made of it. One thread at a time."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from dovetail_npu_vsi.ovx.library cimport NN, VX, check
from dovetail_npu_vsi.ovx.vivante cimport *

from ..errors import VsiError
from .library import ovxlib_version

_TYPES = {"uint8": VX_TYPE_UINT8, "int8": VX_TYPE_INT8, "int32": VX_TYPE_INT32}
_POLICIES = (VX_CONVERT_POLICY_WRAP, VX_CONVERT_POLICY_SATURATE)
_ROUNDINGS = (VX_ROUND_POLICY_TO_ZERO, VX_ROUND_POLICY_TO_NEAREST_EVEN)

OPERATIONS = {
    "add": VSI_NN_OP_ADD,
    "subtract": VSI_NN_OP_SUBTRACT,
    "multiply": VSI_NN_OP_MULTIPLY,
    "maximum": VSI_NN_OP_MAXIMUM,
    "minimum": VSI_NN_OP_MINIMUM,
    "relu": VSI_NN_OP_RELU,
    "relu6": VSI_NN_OP_RELU6,
    "leaky_relu": VSI_NN_OP_LEAKY_RELU,
    "sigmoid": VSI_NN_OP_SIGMOID,
    "tanh": VSI_NN_OP_TANH,
    "softplus": VSI_NN_OP_SOFTRELU,
    "elu": VSI_NN_OP_ELU,
    "linear": VSI_NN_OP_LINEAR,
    "hard_sigmoid": VSI_NN_OP_HARD_SIGMOID,
    "mish": VSI_NN_OP_MISH,
    "selu": VSI_NN_OP_SELU,
    "celu": VSI_NN_OP_CELU,
    "softsign": VSI_NN_OP_SOFTSIGN,
    "convert": VSI_NN_OP_DATACONVERT,
}
"""Nodes that have no parameters, or only numbers at their beginning, by what `Graph.simple` calls
them."""


cdef struct shape_list:
    uint32_t values[8]


cdef class Graph:
    """A graph that is being made; tensors have the numbers that `tensor` and `constant` give.

    Sizes and axes are given outermost first, as everywhere in dovetail, and windows vertically
    first.
    """

    cdef vsi_nn_context_t context
    cdef vsi_nn_graph_t *graph
    cdef shape_list *kept       # what nodes point to until the graph ends
    cdef size_t n_kept, kept_room
    cdef int operation          # number of the one that nodes belong to
    cdef dict ranks

    def __cinit__(self, int tensors, int nodes):
        self.kept_room = nodes * 2
        self.kept = <shape_list *>calloc(self.kept_room, sizeof(shape_list))
        if self.kept == NULL:
            raise MemoryError()
        with nogil:
            self.context = NN.vsi_nn_CreateContext()
        if self.context == NULL:
            raise VsiError("vsi_nn_CreateContext failed: the device cannot be opened")
        with nogil:
            self.graph = NN.vsi_nn_CreateGraph(self.context, tensors, nodes)
        if self.graph == NULL:
            raise VsiError("vsi_nn_CreateGraph failed")
        self.ranks = {}
        major, minor, patch = ovxlib_version()
        check(NN.vsi_nn_SetGraphVersion(self.graph, major, minor, patch), "vsi_nn_SetGraphVersion failed")

    def __dealloc__(self):
        if self.graph != NULL:
            NN.vsi_nn_ReleaseGraph(&self.graph)
        if self.context != NULL:
            NN.vsi_nn_ReleaseContext(&self.context)
        free(self.kept)

    # -- tensors ---------------------------------------------------------------------------------

    def tensor(self, shape, str dtype, double scale, int zero_point, bint is_virtual):
        """Add a tensor that the graph reads or writes, or that lies between nodes."""
        cdef vsi_nn_tensor_attr_t attributes
        self._describe(&attributes, shape, dtype)
        attributes.is_virtual = is_virtual
        attributes.dtype.qnt_type = VSI_NN_QUANTIZED_AFFINE
        attributes.dtype.scale, attributes.dtype.zero_point = scale, zero_point
        return self._add(&attributes, NULL, len(shape))

    def constant(self, values, scales, zero_points, int channel_axis=0):
        """Add a tensor of known values, with one scale and zero point or one for each channel."""
        cdef vsi_nn_tensor_attr_t attributes
        cdef const uint8_t[::1] content
        cdef float[::1] factors = np.ascontiguousarray(scales, np.float32)
        cdef int32_t[::1] zeros = np.ascontiguousarray(zero_points, np.int32)
        values = np.ascontiguousarray(values)
        content = values.reshape(-1).view(np.uint8)
        self._describe(&attributes, values.shape, values.dtype.name)
        attributes.is_const = 1
        if factors.shape[0] == 1:
            attributes.dtype.qnt_type = VSI_NN_QUANTIZED_AFFINE
            attributes.dtype.scale, attributes.dtype.zero_point = factors[0], zeros[0]
        else:
            attributes.dtype.qnt_type = VSI_NN_QUANTIZED_PER_CHANNEL
            attributes.dtype.scales, attributes.dtype.scale_dim = &factors[0], <int32_t>factors.shape[0]
            attributes.dtype.zero_points, attributes.dtype.zero_points_dim = &zeros[0], <int32_t>zeros.shape[0]
            attributes.dtype.channel_dim = values.ndim - 1 - channel_axis
        return self._add(&attributes, <uint8_t *>&content[0], values.ndim)

    cdef int _describe(self, vsi_nn_tensor_attr_t *attributes, shape, str dtype) except -1:
        cdef int i, rank = len(shape)
        if not 0 < rank <= 8:
            raise VsiError(f"a tensor of shape {tuple(shape)} has {rank} axes; ovxlib takes 1 to 8")
        memset(attributes, 0, sizeof(vsi_nn_tensor_attr_t))
        for i in range(rank):
            attributes.size[i] = shape[rank - 1 - i]
        attributes.dim_num = rank
        attributes.dtype.vx_type = _TYPES[dtype]
        return 0

    cdef object _add(self, vsi_nn_tensor_attr_t *attributes, uint8_t *content, int rank):
        cdef uint32_t number
        cdef vsi_nn_tensor_t *made
        with nogil:
            number = NN.vsi_nn_AddTensor(self.graph, <uint32_t>VSI_NN_AUTO, attributes, content)
        if number == <uint32_t>VSI_NN_NONE:
            raise VsiError("vsi_nn_AddTensor failed; the text above is the vendor's")
        if not self.ranks:
            made = NN.vsi_nn_GetTensor(self.graph, number)
            if (
                made == NULL
                or made.t == NULL
                or made.attr.dim_num != attributes.dim_num
                or made.attr.size[0] != attributes.size[0]
                or made.attr.dtype.vx_type != attributes.dtype.vx_type
            ):
                raise VsiError(
                    "ovxlib lays tensors out otherwise than its version says; it may be built for addresses of 40 bits, "
                    "which is not supported"
                )
        self.ranks[number] = rank
        return number

    # -- nodes -----------------------------------------------------------------------------------

    def begin(self, int operation):
        """Have the nodes that follow belong to this operation of the program."""
        self.operation = operation

    cdef vsi_nn_node_t *_node(self, int kind, inputs, output) except NULL:
        cdef vsi_nn_node_t *node
        cdef uint32_t number, i
        cdef uint32_t n_inputs = len(inputs)
        with nogil:
            node = NN.vsi_nn_AddNode(self.graph, kind, n_inputs, 1, &number)
        if node == NULL:
            raise VsiError(f"vsi_nn_AddNode failed for a node of kind {kind}; the text above is the vendor's")
        if (
            node.op != kind
            or node.input.num < n_inputs
            or node.output.num < 1
            or node.vx_param.overflow_policy not in _POLICIES
            or node.vx_param.rounding_policy not in _ROUNDINGS
        ):
            raise VsiError("ovxlib lays nodes out otherwise than its version says; name another one in DOVETAIL_VSI_OVXLIB")
        for i in range(n_inputs):
            node.input.tensors[i] = inputs[i]
        node.output.tensors[0] = output
        node.uid = self.operation
        node.vx_param.overflow_policy = VX_CONVERT_POLICY_SATURATE
        node.vx_param.rounding_policy = VX_ROUND_POLICY_TO_NEAREST_EVEN
        return node

    cdef uint32_t *_keep(self, values) except NULL:
        cdef uint32_t *place
        cdef int i
        if self.n_kept == self.kept_room or len(values) > 8:
            raise VsiError("a graph has more nodes than were announced")
        place = self.kept[self.n_kept].values
        self.n_kept += 1
        for i in range(len(values)):
            place[i] = values[i]
        return place

    def simple(self, str kind, inputs, int output, numbers=(), int at=0):
        """Add a node of `OPERATIONS`; its parameters are floats, the first at the number `at`."""
        cdef vsi_nn_node_t *node = self._node(OPERATIONS[kind], inputs, output)
        cdef int i
        for i in range(len(numbers)):
            node.nn_param.numbers[at + i] = numbers[i]

    def swish(self, int input, int output, double beta, bint is_hard):
        """Add x * sigmoid(beta * x), or its form of straight lines."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_SWISH, (input,), output)
        node.nn_param.swish.beta, node.nn_param.swish.type = beta, is_hard

    def gelu(self, int input, int output, bint approximates):
        """Add GELU, by erf or approximated by tanh."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_GELU, (input,), output)
        node.nn_param.gelu.approximates = approximates

    def convolution(self, inputs, int output, kernel, stride, padding, dilation, int channels, int groups, int multiplier):
        """Add a convolution; `multiplier` is 0 unless it is depthwise: `groups` counts not then."""
        cdef bint is_grouped = groups > 1 and multiplier == 0
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_GROUPED_CONV2D if is_grouped else VSI_NN_OP_CONV2D, inputs, output)
        cdef ovxlib_convolution *values = &node.nn_param.convolution
        cdef int i
        for i in range(2):
            values.kernel[i], values.stride[i], values.dilation[i] = kernel[1 - i], stride[1 - i], dilation[1 - i]
        values.pad[0], values.pad[1], values.pad[2], values.pad[3] = padding[1], padding[3], padding[0], padding[2]
        values.weights, values.group, values.multiplier = channels, groups, multiplier

    def fully_connected(self, inputs, int output, int channels):
        """Add a product of rows with rows of weights."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_FCL2, inputs, output)
        node.nn_param.fully_connected.weights, node.nn_param.fully_connected.axis = channels, 0

    def pooling(self, int input, int output, str kind, size, stride, padding):
        """Add a pooling: "max", "average", or "average_of_all", which counts the padding."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_POOL, (input,), output)
        cdef ovxlib_pooling *values = &node.nn_param.pooling
        cdef int i
        values.type = {
            "max": VX_NN_POOLING_MAX, "average": VX_NN_POOLING_AVG_ANDROID, "average_of_all": VX_NN_POOLING_AVG}[kind]
        values.round_type = VSI_NN_ROUND_FLOOR
        for i in range(2):
            values.kernel[i], values.stride[i], values.dilation[i] = size[1 - i], stride[1 - i], 1
        values.pad[0], values.pad[1], values.pad[2], values.pad[3] = padding[1], padding[3], padding[0], padding[2]

    def softmax(self, int input, int output, double beta, int axis):
        """Add a softmax."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_SOFTMAX, (input,), output)
        node.nn_param.softmax.beta, node.nn_param.softmax.axis = beta, self._inner(output, axis)

    def concat(self, inputs, int output, int axis):
        """Add a concatenation."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_CONCAT, inputs, output)
        node.nn_param.concat.axis = self._inner(output, axis)

    def pad(self, int input, int output, before, after, double value):
        """Add a padding with a real number."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_PAD2, (input,), output)
        node.nn_param.pad.front, node.nn_param.pad.back = self._keep(before[::-1]), self._keep(after[::-1])
        node.nn_param.pad.dim_num, node.nn_param.pad.value = len(before), value

    def permute(self, int input, int output, order):
        """Add a permutation of axes: axis i of the output is axis order[i] of the input."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_PERMUTE, (input,), output)
        cdef int last = len(order) - 1
        node.nn_param.permute.order = self._keep([last - axis for axis in order[::-1]])
        node.nn_param.permute.dim_num = len(order)

    def reshape(self, int input, int output, shape):
        """Add a change of the shape."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_RESHAPE2, (input,), output)
        node.nn_param.reshape.size, node.nn_param.reshape.dim_num = self._keep(shape[::-1]), len(shape)

    def resize(self, int input, int output, bint is_bilinear, size, bint align_corners, bint half_pixel):
        """Add a resampling of images to a size."""
        cdef vsi_nn_node_t *node = self._node(VSI_NN_OP_RESIZE, (input,), output)
        cdef ovxlib_resize *values = &node.nn_param.resize
        values.type, values.factor = is_bilinear, 0
        values.size[0], values.size[1] = size[1], size[0]
        values.align_corners, values.half_pixel_centers = align_corners, half_pixel

    cdef int _inner(self, int tensor, int axis) except -1:
        return self.ranks[tensor] - 1 - axis

    # -- the binary ------------------------------------------------------------------------------

    def binary(self, inputs, outputs):
        """Compile, and return the binary; the graph is of no use then.

        Raises:
            VsiError: ovxlib or the driver refused.
        """
        cdef uint32_t numbers[64]
        cdef uint32_t n = len(inputs)
        cdef size_t size = 0
        cdef vx_status status
        cdef uint8_t[::1] place
        if len(inputs) > 32 or len(outputs) > 32:
            raise VsiError(f"a program has {len(inputs)} inputs and {len(outputs)} outputs; ovxlib takes 32 of each")
        for i, number in enumerate(inputs):
            numbers[i] = number
        if not NN.vsi_nn_SetGraphInputs(self.graph, numbers, n):
            raise VsiError("vsi_nn_SetGraphInputs failed")
        n = len(outputs)
        for i, number in enumerate(outputs):
            numbers[i] = number
        if not NN.vsi_nn_SetGraphOutputs(self.graph, numbers, n):
            raise VsiError("vsi_nn_SetGraphOutputs failed")
        with nogil:
            status = NN.vsi_nn_SetupGraph(self.graph, 1)
        check(status, "ovxlib refuses the graph")
        # Before anything else compiles it: the driver crashes where that was done already.
        with nogil:
            status = NN.vsi_nn_GenerateNBG(self.graph, NULL, &size)
        check(status, "the driver does not compile the graph")
        if size == 0:
            raise VsiError("the driver made an empty binary")
        content = bytearray(size)
        place = content
        with nogil:
            status = NN.vsi_nn_GenerateNBG(self.graph, &place[0], &size)
        check(status, "the driver does not write the binary")
        if size > <size_t>len(content):
            raise VsiError(f"the driver wrote a binary of {size} bytes, and had announced {len(content)}")
        return bytes(content[:size])
