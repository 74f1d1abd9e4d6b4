/* What is used of OpenVX and of VeriSilicon's extensions, and where its functions are once a
 * library was loaded: it puts binaries on the device and runs them.
 *
 * Declared here, and found by dlsym: nothing of OpenVX is needed to build or to import. Objects are
 * opaque pointers. Numbers of the standard are made of an identifier of who defined them (bits 31
 * to 20), of a type of objects or a list of values (bits 19 to 8 or 12) and a count. */
#ifndef DOVETAIL_NPU_VSI_OPENVX_H
#define DOVETAIL_NPU_VSI_OPENVX_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t vx_status;
typedef int32_t vx_enum;
typedef struct _vx_reference *vx_reference;
typedef struct _vx_context *vx_context;
typedef struct _vx_graph *vx_graph;
typedef struct _vx_kernel *vx_kernel;
typedef struct _vx_node *vx_node;
typedef struct _vx_parameter *vx_parameter;
typedef struct _vx_meta_format *vx_meta_format;
typedef struct _vx_tensor *vx_tensor;
typedef struct _vx_tensor_addressing *vx_tensor_addressing;

enum {
    VX_SUCCESS = 0,

    VX_TYPE_INT8 = 2,
    VX_TYPE_UINT8 = 3,
    VX_TYPE_INT16 = 4,
    VX_TYPE_UINT16 = 5,
    VX_TYPE_INT32 = 6,
    VX_TYPE_UINT32 = 7,
    VX_TYPE_FLOAT32 = 10,
    VX_TYPE_FLOAT16 = 15,
    VX_TYPE_BOOL8 = 17,
    VX_TYPE_TENSOR = 0x815,

    VX_INPUT = 0,
    VX_OUTPUT = 1,

    VX_CONTEXT_VERSION = 0x80101,           /* 2 bytes: major above minor */
    VX_CONTEXT_IMPLEMENTATION = 0x80105,    /* text */
    VX_GRAPH_PERFORMANCE = 0x80202,         /* a vx_perf_t */
    VX_KERNEL_PARAMETERS = 0x80400,         /* their number */
    VX_PARAMETER_DIRECTION = 0x80501,
    VX_PARAMETER_TYPE = 0x80502,
    VX_PARAMETER_META_FORMAT = 0x80505,

    VX_TENSOR_NUMBER_OF_DIMS = 0x81500,
    VX_TENSOR_DIMS = 0x81501,
    VX_TENSOR_DATA_TYPE = 0x81502,
    VX_TENSOR_FIXED_POINT_POSITION = 0x81503,
    VX_TENSOR_QUANT_FORMAT = 0x781500,      /* VeriSilicon's */
    VX_TENSOR_ZERO_POINT = 0x781501,
    VX_TENSOR_SCALE = 0x781502,

    VX_QUANT_NONE = 0,
    VX_QUANT_DYNAMIC_FIXED_POINT = 1,
    VX_QUANT_AFFINE_SCALE = 2,

    VX_MEMORY_TYPE_HOST = 0xE001,

    VX_DIRECTIVE_ENABLE_PERFORMANCE = 0x3003
};

/* Sizes are listed innermost first. Drivers that were built for addresses of 40 bits take them as 8
 * bytes each, which `library` finds out and refuses. */
typedef struct {
    uint32_t num_of_dims;
    uint32_t *sizes;
    vx_enum data_format;
    vx_enum quant_format;
    union {
        struct {
            int8_t fixed_point_pos;
        } dfp;
        struct {
            float scale;
            int32_t zero_point;
        } affine;
        uint64_t room[6];       /* of what this union has grown to so far */
    } quant_data;
} vx_tensor_create_params_t;

/* Drivers refuse other lengths than their own: with `cores`, or without it. */
typedef struct {
    uint32_t eco;
    uint32_t customer;          /* the chip's target id, which binaries hold too */
    uint32_t evis1;
    uint32_t evis2;
    uint32_t cores;
} vx_hardware_caps_params_t;

/* What a driver measured of the runs of a graph, in nanoseconds; `beg` and `end` on a clock of its
 * own. */
typedef struct {
    uint64_t tmp;               /* the last run */
    uint64_t beg;
    uint64_t end;
    uint64_t sum;
    uint64_t avg;
    uint64_t min;
    uint64_t num;               /* of runs */
    uint64_t max;
} vx_perf_t;

_Static_assert(offsetof(vx_tensor_create_params_t, quant_data) == 24, "sizes, types and quantization lie there");
_Static_assert(sizeof(vx_tensor_create_params_t) == 72, "the size that drivers are told");

/* Return type, name, parameters. */
#define OPENVX_FUNCTIONS(F)                                                                                      \
    F(vx_context, vxCreateContext, (void))                                                                       \
    F(vx_status, vxReleaseContext, (vx_context *))                                                               \
    F(vx_status, vxQueryContext, (vx_context, vx_enum, void *, size_t))                                          \
    F(vx_status, vxGetStatus, (vx_reference))                                                                    \
    F(vx_kernel, vxImportKernelFromURL, (vx_context, const char *, const char *))                                \
    F(vx_status, vxQueryKernel, (vx_kernel, vx_enum, void *, size_t))                                            \
    F(vx_parameter, vxGetKernelParameterByIndex, (vx_kernel, uint32_t))                                          \
    F(vx_status, vxQueryParameter, (vx_parameter, vx_enum, void *, size_t))                                      \
    F(vx_status, vxReleaseParameter, (vx_parameter *))                                                           \
    F(vx_status, vxQueryMetaFormatAttribute, (vx_meta_format, vx_enum, void *, size_t))                          \
    F(vx_status, vxReleaseKernel, (vx_kernel *))                                                                 \
    F(vx_graph, vxCreateGraph, (vx_context))                                                                     \
    F(vx_status, vxReleaseGraph, (vx_graph *))                                                                   \
    F(vx_node, vxCreateGenericNode, (vx_graph, vx_kernel))                                                       \
    F(vx_status, vxSetParameterByIndex, (vx_node, uint32_t, vx_reference))                                       \
    F(vx_status, vxReleaseNode, (vx_node *))                                                                     \
    F(vx_tensor_addressing, vxCreateTensorAddressing, (vx_context, uint32_t *, uint32_t *, uint8_t))             \
    F(vx_status, vxReleaseTensorAddressing, (vx_tensor_addressing *))                                            \
    F(vx_tensor, vxCreateTensorFromHandle2,                                                                      \
      (vx_context, const vx_tensor_create_params_t *, size_t, vx_tensor_addressing, void *, vx_enum))            \
    F(vx_status, vxQueryTensor, (vx_tensor, vx_enum, void *, size_t))                                            \
    F(vx_status, vxSwapTensorHandle, (vx_tensor, void *, void **))                                               \
    F(vx_status, vxFlushHandle, (vx_reference))                                                                  \
    F(vx_status, vxReleaseTensor, (vx_tensor *))                                                                 \
    F(vx_status, vxVerifyGraph, (vx_graph))                                                                      \
    F(vx_status, vxScheduleGraph, (vx_graph))                                                                    \
    F(vx_status, vxWaitGraph, (vx_graph))

/* Those that not every driver has. */
#define OPENVX_OPTIONAL_FUNCTIONS(F)                                                                             \
    F(vx_status, vxQueryHardwareCaps, (vx_context, const vx_hardware_caps_params_t *, size_t))                   \
    F(vx_status, vxInvalidateHandleVSI, (vx_reference))                                                          \
    F(vx_status, vxDirective, (vx_reference, vx_enum))                                                           \
    F(vx_status, vxQueryGraph, (vx_graph, vx_enum, void *, size_t))

typedef struct {
#define FIELD(type, name, parameters) type(*name) parameters;
    OPENVX_FUNCTIONS(FIELD)
    OPENVX_OPTIONAL_FUNCTIONS(FIELD)
#undef FIELD
} openvx;

/* The name of a status, of vxVerifyGraph as of ovxlib, which has the same numbers. */
const char *openvx_status_name(vx_status status);

#endif
