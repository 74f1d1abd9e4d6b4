"""What Cython sees of the headers in this folder."""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "openvx.h" nogil:
    ctypedef int32_t vx_status
    ctypedef int32_t vx_enum
    ctypedef void *vx_reference
    ctypedef void *vx_context
    ctypedef void *vx_graph
    ctypedef void *vx_kernel
    ctypedef void *vx_node
    ctypedef void *vx_parameter
    ctypedef void *vx_meta_format
    ctypedef void *vx_tensor
    ctypedef void *vx_tensor_addressing

    vx_status VX_SUCCESS
    vx_enum VX_TYPE_INT8, VX_TYPE_UINT8, VX_TYPE_INT16, VX_TYPE_UINT16, VX_TYPE_INT32, VX_TYPE_UINT32
    vx_enum VX_TYPE_FLOAT32, VX_TYPE_FLOAT16, VX_TYPE_BOOL8, VX_TYPE_TENSOR
    vx_enum VX_INPUT, VX_OUTPUT
    vx_enum VX_CONTEXT_VERSION, VX_CONTEXT_IMPLEMENTATION, VX_KERNEL_PARAMETERS
    vx_enum VX_PARAMETER_DIRECTION, VX_PARAMETER_TYPE, VX_PARAMETER_META_FORMAT
    vx_enum VX_TENSOR_NUMBER_OF_DIMS, VX_TENSOR_DIMS, VX_TENSOR_DATA_TYPE, VX_TENSOR_FIXED_POINT_POSITION
    vx_enum VX_TENSOR_QUANT_FORMAT, VX_TENSOR_ZERO_POINT, VX_TENSOR_SCALE
    vx_enum VX_QUANT_NONE, VX_QUANT_DYNAMIC_FIXED_POINT, VX_QUANT_AFFINE_SCALE, VX_MEMORY_TYPE_HOST
    vx_enum VX_GRAPH_PERFORMANCE, VX_DIRECTIVE_ENABLE_PERFORMANCE

    ctypedef struct openvx_affine:
        float scale
        int32_t zero_point

    ctypedef struct openvx_fixed_point:
        int8_t fixed_point_pos

    ctypedef union openvx_quantization:
        openvx_fixed_point dfp
        openvx_affine affine

    ctypedef struct vx_tensor_create_params_t:
        uint32_t num_of_dims
        uint32_t *sizes
        vx_enum data_format
        vx_enum quant_format
        openvx_quantization quant_data

    ctypedef struct vx_hardware_caps_params_t:
        uint32_t customer

    ctypedef struct vx_perf_t:
        uint64_t tmp, beg, end, num

    ctypedef struct openvx:
        vx_context (*vxCreateContext)() noexcept nogil
        vx_status (*vxReleaseContext)(vx_context *) noexcept nogil
        vx_status (*vxQueryContext)(vx_context, vx_enum, void *, size_t) noexcept nogil
        vx_status (*vxGetStatus)(vx_reference) noexcept nogil
        vx_kernel (*vxImportKernelFromURL)(vx_context, const char *, const char *) noexcept nogil
        vx_status (*vxQueryKernel)(vx_kernel, vx_enum, void *, size_t) noexcept nogil
        vx_parameter (*vxGetKernelParameterByIndex)(vx_kernel, uint32_t) noexcept nogil
        vx_status (*vxQueryParameter)(vx_parameter, vx_enum, void *, size_t) noexcept nogil
        vx_status (*vxReleaseParameter)(vx_parameter *) noexcept nogil
        vx_status (*vxQueryMetaFormatAttribute)(vx_meta_format, vx_enum, void *, size_t) noexcept nogil
        vx_status (*vxReleaseKernel)(vx_kernel *) noexcept nogil
        vx_graph (*vxCreateGraph)(vx_context) noexcept nogil
        vx_status (*vxReleaseGraph)(vx_graph *) noexcept nogil
        vx_node (*vxCreateGenericNode)(vx_graph, vx_kernel) noexcept nogil
        vx_status (*vxSetParameterByIndex)(vx_node, uint32_t, vx_reference) noexcept nogil
        vx_status (*vxReleaseNode)(vx_node *) noexcept nogil
        vx_tensor_addressing (*vxCreateTensorAddressing)(vx_context, uint32_t *, uint32_t *, uint8_t) noexcept nogil
        vx_status (*vxReleaseTensorAddressing)(vx_tensor_addressing *) noexcept nogil
        vx_tensor (*vxCreateTensorFromHandle2)(
            vx_context, const vx_tensor_create_params_t *, size_t, vx_tensor_addressing, void *, vx_enum) noexcept nogil
        vx_status (*vxQueryTensor)(vx_tensor, vx_enum, void *, size_t) noexcept nogil
        vx_status (*vxSwapTensorHandle)(vx_tensor, void *, void **) noexcept nogil
        vx_status (*vxFlushHandle)(vx_reference) noexcept nogil
        vx_status (*vxReleaseTensor)(vx_tensor *) noexcept nogil
        vx_status (*vxVerifyGraph)(vx_graph) noexcept nogil
        vx_status (*vxScheduleGraph)(vx_graph) noexcept nogil
        vx_status (*vxWaitGraph)(vx_graph) noexcept nogil
        vx_status (*vxQueryHardwareCaps)(vx_context, const vx_hardware_caps_params_t *, size_t) noexcept nogil
        vx_status (*vxInvalidateHandleVSI)(vx_reference) noexcept nogil
        vx_status (*vxDirective)(vx_reference, vx_enum) noexcept nogil
        vx_status (*vxQueryGraph)(vx_graph, vx_enum, void *, size_t) noexcept nogil

    const char *openvx_status_name(vx_status)

cdef extern from "ovxlib.h" nogil:
    ctypedef void *vsi_nn_context_t

    int32_t VSI_NN_NONE, VSI_NN_AUTO, VSI_NN_QUANTIZED_AFFINE, VSI_NN_QUANTIZED_PER_CHANNEL
    int32_t VSI_NN_OP_ADD, VSI_NN_OP_MULTIPLY, VSI_NN_OP_CONV2D, VSI_NN_OP_SOFTMAX, VSI_NN_OP_POOL, VSI_NN_OP_LEAKY_RELU
    int32_t VSI_NN_OP_CONCAT, VSI_NN_OP_PERMUTE, VSI_NN_OP_RELU, VSI_NN_OP_FCL2, VSI_NN_OP_MAXIMUM, VSI_NN_OP_MINIMUM, VSI_NN_OP_SUBTRACT, VSI_NN_OP_RELU6
    int32_t VSI_NN_OP_SIGMOID, VSI_NN_OP_TANH, VSI_NN_OP_SOFTRELU, VSI_NN_OP_RESIZE, VSI_NN_OP_DATACONVERT, VSI_NN_OP_ELU
    int32_t VSI_NN_OP_PAD2, VSI_NN_OP_GROUPED_CONV2D, VSI_NN_OP_SWISH, VSI_NN_OP_LINEAR
    int32_t VSI_NN_OP_HARD_SIGMOID, VSI_NN_OP_MISH, VSI_NN_OP_GELU, VSI_NN_OP_RESHAPE2, VSI_NN_OP_SELU, VSI_NN_OP_CELU
    int32_t VSI_NN_OP_SOFTSIGN
    int32_t VX_NN_POOLING_MAX, VX_NN_POOLING_AVG, VX_NN_POOLING_AVG_ANDROID, VSI_NN_ROUND_FLOOR
    vx_enum VX_CONVERT_POLICY_WRAP, VX_CONVERT_POLICY_SATURATE, VX_ROUND_POLICY_TO_ZERO, VX_ROUND_POLICY_TO_NEAREST_EVEN

    ctypedef struct ovxlib_type:
        int32_t vx_type
        int32_t qnt_type
        int32_t zero_point
        float scale
        const float *scales
        int32_t scale_dim
        int32_t channel_dim
        const int32_t *zero_points
        int32_t zero_points_dim

    ctypedef struct vsi_nn_tensor_attr_t:
        uint32_t *size
        uint32_t dim_num
        int32_t is_virtual
        int32_t is_const
        ovxlib_type dtype

    ctypedef struct vsi_nn_tensor_t:
        vsi_nn_tensor_attr_t attr
        vx_tensor t

    ctypedef struct vsi_nn_graph_t:
        vsi_nn_context_t ctx
        vx_graph g

    ctypedef struct ovxlib_convolution:
        uint32_t *kernel
        uint32_t *stride
        uint32_t *pad
        uint32_t weights
        uint32_t group
        uint32_t *dilation
        int32_t multiplier

    ctypedef struct ovxlib_pooling:
        int32_t type
        int32_t round_type
        uint32_t *kernel
        uint32_t *stride
        uint32_t *pad
        uint32_t *dilation

    ctypedef struct ovxlib_fully_connected:
        uint32_t weights
        uint32_t axis

    ctypedef struct ovxlib_softmax:
        float beta
        int32_t axis

    ctypedef struct ovxlib_concat:
        uint32_t axis

    ctypedef struct ovxlib_pad:
        const uint32_t *front
        const uint32_t *back
        uint8_t dim_num
        float value

    ctypedef struct ovxlib_permute:
        const uint32_t *order
        uint32_t dim_num

    ctypedef struct ovxlib_reshape:
        const uint32_t *size
        uint32_t dim_num

    ctypedef struct ovxlib_resize:
        int32_t type
        float factor
        int32_t *size
        int32_t align_corners
        int32_t half_pixel_centers

    ctypedef struct ovxlib_swish:
        float beta
        int32_t type

    ctypedef struct ovxlib_gelu:
        int32_t approximates

    ctypedef union ovxlib_parameters:
        ovxlib_convolution convolution
        ovxlib_pooling pooling
        ovxlib_fully_connected fully_connected
        ovxlib_softmax softmax
        ovxlib_concat concat
        ovxlib_pad pad
        ovxlib_permute permute
        ovxlib_reshape reshape
        ovxlib_resize resize
        ovxlib_swish swish
        ovxlib_gelu gelu
        float *numbers

    ctypedef struct ovxlib_operands:
        uint32_t *tensors
        uint32_t num

    ctypedef struct ovxlib_settings:
        vx_enum overflow_policy
        vx_enum rounding_policy
        int32_t has_relu

    ctypedef struct vsi_nn_node_t:
        int32_t op
        ovxlib_operands input
        ovxlib_operands output
        ovxlib_parameters nn_param
        ovxlib_settings vx_param
        uint32_t uid

    ctypedef struct ovxlib:
        uint32_t (*vsi_nn_GetVersionMajor)() noexcept nogil
        uint32_t (*vsi_nn_GetVersionMinor)() noexcept nogil
        uint32_t (*vsi_nn_GetVersionPatch)() noexcept nogil
        vsi_nn_context_t (*vsi_nn_CreateContext)() noexcept nogil
        void (*vsi_nn_ReleaseContext)(vsi_nn_context_t *) noexcept nogil
        vsi_nn_graph_t *(*vsi_nn_CreateGraph)(vsi_nn_context_t, uint32_t, uint32_t) noexcept nogil
        vx_status (*vsi_nn_SetGraphVersion)(vsi_nn_graph_t *, uint32_t, uint32_t, uint32_t) noexcept nogil
        void (*vsi_nn_ReleaseGraph)(vsi_nn_graph_t **) noexcept nogil
        uint32_t (*vsi_nn_AddTensor)(vsi_nn_graph_t *, uint32_t, vsi_nn_tensor_attr_t *, uint8_t *) noexcept nogil
        vsi_nn_tensor_t *(*vsi_nn_GetTensor)(const vsi_nn_graph_t *, uint32_t) noexcept nogil
        vsi_nn_node_t *(*vsi_nn_AddNode)(vsi_nn_graph_t *, int32_t, uint32_t, uint32_t, uint32_t *) noexcept nogil
        int32_t (*vsi_nn_SetGraphInputs)(vsi_nn_graph_t *, uint32_t *, uint32_t) noexcept nogil
        int32_t (*vsi_nn_SetGraphOutputs)(vsi_nn_graph_t *, uint32_t *, uint32_t) noexcept nogil
        vx_status (*vsi_nn_SetupGraph)(vsi_nn_graph_t *, int32_t) noexcept nogil
        vx_status (*vsi_nn_GenerateNBG)(vsi_nn_graph_t *, void *, size_t *) noexcept nogil

cdef extern from "loading.h" nogil:
    int loading_openvx(openvx *, const char *, char *, size_t)
    int loading_ovxlib(ovxlib *, const char *, char *, size_t)
    const char *loading_file(const void *)
