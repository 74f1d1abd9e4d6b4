/* What is used of ovxlib, VeriSilicon's library that makes graphs of layers and binaries of graphs.
 *
 * Its nodes are described by writing into them, so that layouts are stated here. They are the same
 * from 1.1.88 to 1.2.30, in builds for addresses of 32 bits; `library` compares them with what the
 * library itself fills in. Sizes are listed innermost first, and windows horizontally first. */
#ifndef DOVETAIL_NPU_VSI_OVXLIB_H
#define DOVETAIL_NPU_VSI_OVXLIB_H

#include "openvx.h"

typedef struct _vsi_nn_context *vsi_nn_context_t;

enum {
    VSI_NN_NONE = -1,           /* the id that AddTensor answers where it fails */
    VSI_NN_AUTO = -2,           /* to have an id chosen */

    VSI_NN_QUANTIZED_AFFINE = 2,
    VSI_NN_QUANTIZED_PER_CHANNEL = 3,

    VSI_NN_OP_ADD = 0,
    VSI_NN_OP_MULTIPLY = 1,
    VSI_NN_OP_CONV2D = 2,
    VSI_NN_OP_SOFTMAX = 7,
    VSI_NN_OP_POOL = 8,
    VSI_NN_OP_LEAKY_RELU = 9,
    VSI_NN_OP_CONCAT = 11,
    VSI_NN_OP_PERMUTE = 19,
    VSI_NN_OP_RELU = 22,
    VSI_NN_OP_FCL2 = 28,
    VSI_NN_OP_MAXIMUM = 31,
    VSI_NN_OP_SUBTRACT = 34,
    VSI_NN_OP_RELU6 = 35,
    VSI_NN_OP_SIGMOID = 36,
    VSI_NN_OP_TANH = 37,
    VSI_NN_OP_SOFTRELU = 40,
    VSI_NN_OP_RESIZE = 44,
    VSI_NN_OP_DATACONVERT = 48,
    VSI_NN_OP_ELU = 51,
    VSI_NN_OP_MINIMUM = 75,
    VSI_NN_OP_GROUPED_CONV2D = 105,
    VSI_NN_OP_SWISH = 128,
    VSI_NN_OP_LINEAR = 132,
    VSI_NN_OP_HARD_SIGMOID = 136,
    VSI_NN_OP_MISH = 137,
    VSI_NN_OP_GELU = 156,
    VSI_NN_OP_RESHAPE2 = 162,
    VSI_NN_OP_PAD2 = 165,
    VSI_NN_OP_SELU = 169,
    VSI_NN_OP_CELU = 170,
    VSI_NN_OP_SOFTSIGN = 174,

    VX_NN_POOLING_MAX = 0x1B000,
    VX_NN_POOLING_AVG = 0x1B001,            /* counts the padding */
    VX_NN_POOLING_AVG_ANDROID = 0x71B001,   /* does not */
    VSI_NN_ROUND_FLOOR = 1,

    VX_CONVERT_POLICY_WRAP = 0xA000,
    VX_CONVERT_POLICY_SATURATE = 0xA001,
    VX_ROUND_POLICY_TO_ZERO = 0x12001,
    VX_ROUND_POLICY_TO_NEAREST_EVEN = 0x12002
};

typedef struct {
    uint32_t size[8];
    uint32_t dim_num;
    int32_t is_virtual;         /* lies between nodes, and need not be in memory */
    int32_t is_const;
    struct {
        int32_t fmt;
        int32_t vx_type;
        int32_t qnt_type;
        union {
            struct {
                int32_t zero_point;
                float scale;
            };
            struct {
                const float *scales;
                int32_t scale_dim;          /* their number */
                int32_t channel_dim;
                const int32_t *zero_points;
                int32_t zero_points_dim;
            };
        };
    } dtype;
    int32_t is_created_from_handle;
    int32_t is_handle_malloc_by_ovxlib;
    int32_t vsi_memory_type;
} vsi_nn_tensor_attr_t;

typedef struct {
    vsi_nn_tensor_attr_t attr;
    vx_tensor t;
} vsi_nn_tensor_t;

typedef struct {
    vsi_nn_context_t ctx;
    vx_graph g;
} vsi_nn_graph_t;               /* and more, which is the library's own */

typedef struct {
    uint32_t kernel[2];
    uint32_t stride[2];
    uint32_t pad[4];            /* left, right, top, bottom */
    int32_t pad_type;           /* 0: as `pad` says */
    uint32_t weights;           /* output channels */
    uint32_t group;
    uint32_t dilation[2];
    int32_t multiplier;         /* output channels of an input channel, if depthwise; else 0 */
} ovxlib_convolution;

typedef struct {
    int32_t type;
    int32_t round_type;
    uint32_t kernel[2];
    uint32_t stride[2];
    uint32_t pad[4];
    int32_t pad_type;
    void *local;
    uint32_t dilation[2];
} ovxlib_pooling;

typedef struct {
    int32_t type;               /* 0: nearest, 1: bilinear */
    float factor;               /* 0: as `size` says */
    int32_t size[2];
    void *local[2];
    int32_t align_corners;
    int32_t half_pixel_centers;
    int32_t layout;             /* 0: planar */
} ovxlib_resize;

typedef union {
    ovxlib_convolution convolution;         /* that in groups, too */
    struct {
        uint32_t before[14];                /* of an older convolution, with which pooling was one */
        ovxlib_pooling pooling;
    };
    struct {
        uint32_t weights;
        uint32_t axis;
    } fully_connected;
    struct {
        void *local;
        float beta;
        int32_t axis;
    } softmax;
    struct {
        void *local;
        uint32_t axis;
    } concat;
    struct {
        void *local;
        const uint32_t *front;
        const uint32_t *back;
        uint8_t dim_num;
        float value;            /* as a real number */
        int32_t mode;           /* 0: the value */
    } pad;
    struct {
        const uint32_t *order;
        uint32_t dim_num;
    } permute;
    struct {
        void *local;
        const uint32_t *size;
        uint32_t dim_num;
    } reshape;
    ovxlib_resize resize;
    struct {
        float beta;
        int32_t type;           /* 0: x * sigmoid(beta * x), 1: hard swish */
    } swish;
    struct {
        int32_t approximates;   /* by tanh */
    } gelu;
    float numbers[16];          /* of other functions; where theirs begin differs */
} ovxlib_parameters;

typedef struct {
    vsi_nn_graph_t *graph;
    vx_node n;
    int32_t op;
    struct {
        uint32_t *tensors;
        uint32_t num;
    } input, output;
    ovxlib_parameters nn_param;
    uint8_t more[448 - sizeof(ovxlib_parameters)];
    struct {
        vx_enum overflow_policy;
        vx_enum rounding_policy;
        vx_enum down_scale_size_rounding;
        int32_t has_relu;
        uint32_t accumulator_bits;
        vx_enum platform;
    } vx_param;
    uint32_t uid;
} vsi_nn_node_t;                /* and more, which is the library's own */

_Static_assert(sizeof(vsi_nn_tensor_attr_t) == 112 && offsetof(vsi_nn_tensor_attr_t, dtype) == 48, "of 1.1.88 and later");
_Static_assert(offsetof(vsi_nn_tensor_attr_t, is_created_from_handle) == 96, "of 1.1.88 and later");
_Static_assert(offsetof(vsi_nn_node_t, nn_param) == 56 && offsetof(vsi_nn_node_t, vx_param) == 504, "of 1.1.88 and later");
_Static_assert(offsetof(vsi_nn_node_t, uid) == 528, "of 1.1.88 and later");
_Static_assert(offsetof(ovxlib_parameters, pooling) == 56 && sizeof(ovxlib_pooling) == 64, "of 1.1.88 and later");
_Static_assert(offsetof(ovxlib_resize, align_corners) == 32, "of 1.1.88 and later");

/* Return type, name, parameters. */
#define OVXLIB_FUNCTIONS(F)                                                                                      \
    F(uint32_t, vsi_nn_GetVersionMajor, (void))                                                                  \
    F(uint32_t, vsi_nn_GetVersionMinor, (void))                                                                  \
    F(uint32_t, vsi_nn_GetVersionPatch, (void))                                                                  \
    F(vsi_nn_context_t, vsi_nn_CreateContext, (void))                                                            \
    F(void, vsi_nn_ReleaseContext, (vsi_nn_context_t *))                                                         \
    F(vsi_nn_graph_t *, vsi_nn_CreateGraph, (vsi_nn_context_t, uint32_t, uint32_t))                              \
    F(vx_status, vsi_nn_SetGraphVersion, (vsi_nn_graph_t *, uint32_t, uint32_t, uint32_t))                       \
    F(void, vsi_nn_ReleaseGraph, (vsi_nn_graph_t **))                                                            \
    F(uint32_t, vsi_nn_AddTensor, (vsi_nn_graph_t *, uint32_t, vsi_nn_tensor_attr_t *, uint8_t *))               \
    F(vsi_nn_tensor_t *, vsi_nn_GetTensor, (const vsi_nn_graph_t *, uint32_t))                                   \
    F(vsi_nn_node_t *, vsi_nn_AddNode, (vsi_nn_graph_t *, int32_t, uint32_t, uint32_t, uint32_t *))              \
    F(int32_t, vsi_nn_SetGraphInputs, (vsi_nn_graph_t *, uint32_t *, uint32_t))                                  \
    F(int32_t, vsi_nn_SetGraphOutputs, (vsi_nn_graph_t *, uint32_t *, uint32_t))                                 \
    F(vx_status, vsi_nn_SetupGraph, (vsi_nn_graph_t *, int32_t))                                                 \
    F(vx_status, vsi_nn_GenerateNBG, (vsi_nn_graph_t *, void *, size_t *))

typedef struct {
#define FIELD(type, name, parameters) type(*name) parameters;
    OVXLIB_FUNCTIONS(FIELD)
#undef FIELD
} ovxlib;

#endif
