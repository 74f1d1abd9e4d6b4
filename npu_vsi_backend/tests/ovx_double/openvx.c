/* The half of the double that runs. */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct _vx_context {
    int is_measuring;
};

struct _vx_kernel {
    program program;
};

struct _vx_node {
    struct _vx_kernel *kernel;
    vx_tensor operands[2 * MOST_OPERANDS];
};

struct _vx_graph {
    vx_context context;
    struct _vx_node *node;
    int is_verified, is_running, is_measured;
    vx_perf_t performance;
};

struct _vx_parameter {
    const record *told;
    int is_output;
};

struct _vx_tensor_addressing {
    int unused;
};

struct _vx_tensor {
    uint32_t rank;
    uint32_t sizes[MOST_AXES];
    size_t bytes;
    uint8_t *handle;            /* the host's memory */
    uint8_t *device;
};

static void *made(const char *kind, size_t size)
{
    note("+%s", kind);
    return calloc(1, size);
}

static vx_status released(const char *kind, void *handle)
{
    void **place = handle;
    note("-%s", kind);
    free(*place);
    *place = NULL;
    return VX_SUCCESS;
}

static vx_status told(const void *content, size_t length, void *place, size_t size)
{
    if (size != length) {
        return -10;
    }
    memcpy(place, content, size);
    return VX_SUCCESS;
}

vx_context vxCreateContext(void)
{
    CALLED(NULL);
    return made("context", sizeof(struct _vx_context));
}

vx_status vxReleaseContext(vx_context *context)
{
    return released("context", context);
}

vx_status vxQueryContext(vx_context context, vx_enum attribute, void *place, size_t size)
{
    (void)context;
    CALLED(failing());
    const uint16_t version = 0x0103;
    if (attribute == VX_CONTEXT_VERSION) {
        return told(&version, sizeof(version), place, size);
    }
    snprintf(place, size, "Double");
    return VX_SUCCESS;
}

vx_status vxQueryHardwareCaps(vx_context context, const vx_hardware_caps_params_t *facts, size_t size)
{
    (void)context;
    CALLED(failing());
    if (fault("silent") || size != (fault("short") ? 16 : 20)) {
        return -10;
    }
    ((vx_hardware_caps_params_t *)facts)->customer = (uint32_t)number("target", 0x9F);
    return VX_SUCCESS;
}

vx_status vxGetStatus(vx_reference reference)
{
    CALLED(failing());
    return reference ? VX_SUCCESS : -12;
}

vx_kernel vxImportKernelFromURL(vx_context context, const char *kind, const char *place)
{
    (void)context;
    CALLED(NULL);
    program read;
    if (strcmp(kind, "vx_vivante_pointer") != 0 || !binary_read(&read, (const uint8_t *)place)) {
        return NULL;
    }
    vx_kernel kernel = made("kernel", sizeof(struct _vx_kernel));
    kernel->program = read;
    return kernel;
}

vx_status vxQueryKernel(vx_kernel kernel, vx_enum attribute, void *place, size_t size)
{
    CALLED(failing());
    uint32_t count = kernel->program.n_inputs + kernel->program.n_outputs;
    return attribute == VX_KERNEL_PARAMETERS ? told(&count, sizeof(count), place, size) : -3;
}

vx_parameter vxGetKernelParameterByIndex(vx_kernel kernel, uint32_t index)
{
    CALLED(NULL);
    vx_parameter parameter = made("parameter", sizeof(struct _vx_parameter));
    parameter->told = &kernel->program.operands[index];
    parameter->is_output = index >= kernel->program.n_inputs;
    return parameter;
}

vx_status vxQueryParameter(vx_parameter parameter, vx_enum attribute, void *place, size_t size)
{
    CALLED(failing());
    const vx_enum direction = parameter->is_output ? VX_OUTPUT : VX_INPUT, kind = VX_TYPE_TENSOR;
    switch (attribute) {
    case VX_PARAMETER_DIRECTION:
        return told(&direction, sizeof(direction), place, size);
    case VX_PARAMETER_TYPE:
        return told(&kind, sizeof(kind), place, size);
    case VX_PARAMETER_META_FORMAT:
        return told(&parameter, sizeof(parameter), place, size);
    default:
        return -3;
    }
}

vx_status vxReleaseParameter(vx_parameter *parameter)
{
    return released("parameter", parameter);
}

vx_status vxQueryMetaFormatAttribute(vx_meta_format format, vx_enum attribute, void *place, size_t size)
{
    CALLED(failing());
    const record *of = ((vx_parameter)format)->told;
    size_t sizes[MOST_AXES], rank = of->rank;
    const vx_enum type = of->type == 2 ? VX_TYPE_UINT8 : VX_TYPE_INT8, quantization = VX_QUANT_AFFINE_SCALE;
    for (int i = 0; i < MOST_AXES; i++) {
        sizes[i] = of->sizes[i];
    }
    switch (attribute) {
    case VX_TENSOR_NUMBER_OF_DIMS:
        return told(&rank, sizeof(rank), place, size);
    case VX_TENSOR_DIMS:
        return told(sizes, rank * sizeof(size_t), place, size);
    case VX_TENSOR_DATA_TYPE:
        return told(&type, sizeof(type), place, size);
    case VX_TENSOR_QUANT_FORMAT:
        return told(&quantization, sizeof(quantization), place, size);
    case VX_TENSOR_SCALE:
        return told(&of->scale, sizeof(of->scale), place, size);
    case VX_TENSOR_ZERO_POINT:
        return told(&of->zero_point, sizeof(of->zero_point), place, size);
    default:
        return -3;
    }
}

vx_status vxReleaseKernel(vx_kernel *kernel)
{
    return released("kernel", kernel);
}

vx_graph vxCreateGraph(vx_context context)
{
    CALLED(NULL);
    vx_graph graph = made("graph", sizeof(struct _vx_graph));
    graph->context = context;
    graph->performance.min = UINT64_MAX;
    return graph;
}

vx_status vxReleaseGraph(vx_graph *graph)
{
    return released("graph", graph);
}

vx_node vxCreateGenericNode(vx_graph graph, vx_kernel kernel)
{
    CALLED(NULL);
    graph->node = made("node", sizeof(struct _vx_node));
    graph->node->kernel = kernel;
    return graph->node;
}

vx_status vxReleaseNode(vx_node *node)
{
    return released("node", node);
}

vx_status vxSetParameterByIndex(vx_node node, uint32_t index, vx_reference reference)
{
    CALLED(failing());
    node->operands[index] = (vx_tensor)reference;
    return VX_SUCCESS;
}

vx_tensor_addressing vxCreateTensorAddressing(vx_context context, uint32_t *sizes, uint32_t *strides, uint8_t rank)
{
    (void)context, (void)sizes, (void)strides, (void)rank;
    CALLED(NULL);
    return made("addressing", sizeof(struct _vx_tensor_addressing));
}

vx_status vxReleaseTensorAddressing(vx_tensor_addressing *addressing)
{
    return released("addressing", addressing);
}

static int is_misplaced(const void *place)
{
    return (uintptr_t)place % 64 != 0;
}

vx_tensor vxCreateTensorFromHandle2(vx_context context, const vx_tensor_create_params_t *described, size_t size,
                                    vx_tensor_addressing addressing, void *handle, vx_enum kind)
{
    (void)context;
    CALLED(NULL);
    if (size != 72 || !addressing || kind != VX_MEMORY_TYPE_HOST || is_misplaced(handle)) {
        return NULL;
    }
    vx_tensor tensor = made("tensor", sizeof(struct _vx_tensor));
    tensor->rank = described->num_of_dims;
    tensor->bytes = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        tensor->sizes[i] = described->sizes[i];
        tensor->bytes *= described->sizes[i];
    }
    tensor->handle = handle;
    tensor->device = calloc(1, tensor->bytes);
    return tensor;
}

vx_status vxQueryTensor(vx_tensor tensor, vx_enum attribute, void *place, size_t size)
{
    CALLED(failing());
    if (attribute != VX_TENSOR_DIMS || fault("wide")) {
        return -10;
    }
    return told(tensor->sizes, tensor->rank * sizeof(uint32_t), place, size);
}

vx_status vxSwapTensorHandle(vx_tensor tensor, void *handle, void **before)
{
    CALLED(failing());
    if (handle && (is_misplaced(handle) || fault("far"))) {
        return -10;
    }
    if (before) {
        memcpy(tensor->handle, tensor->device, tensor->bytes);
        *before = tensor->handle;
    }
    tensor->handle = handle;
    return VX_SUCCESS;
}

vx_status vxFlushHandle(vx_reference reference)
{
    CALLED(failing());
    vx_tensor tensor = (vx_tensor)reference;
    memcpy(tensor->device, tensor->handle, tensor->bytes);
    return VX_SUCCESS;
}

vx_status vxInvalidateHandleVSI(vx_reference reference)
{
    CALLED(failing());
    vx_tensor tensor = (vx_tensor)reference;
    memcpy(tensor->handle, tensor->device, tensor->bytes);
    return VX_SUCCESS;
}

vx_status vxReleaseTensor(vx_tensor *tensor)
{
    free((*tensor)->device);
    return released("tensor", tensor);
}

vx_status vxVerifyGraph(vx_graph graph)
{
    CALLED(failing());
    const program *run = &graph->node->kernel->program;
    for (uint32_t i = 0; i < run->n_inputs + run->n_outputs; i++) {
        if (!graph->node->operands[i]) {
            return -4;
        }
    }
    graph->is_verified = 1;
    graph->is_measured = graph->context->is_measuring;
    return VX_SUCCESS;
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec + (fault("elsewhen") ? UINT64_C(1) << 60 : 0);
}

vx_status vxDirective(vx_reference reference, vx_enum directive)
{
    CALLED(failing());
    if (directive != VX_DIRECTIVE_ENABLE_PERFORMANCE || fault("untimed")) {
        return -3;
    }
    ((vx_context)reference)->is_measuring = 1;
    return VX_SUCCESS;
}

vx_status vxQueryGraph(vx_graph graph, vx_enum attribute, void *place, size_t size)
{
    CALLED(failing());
    if (attribute != VX_GRAPH_PERFORMANCE) {
        return -3;
    }
    vx_perf_t nothing = {.min = UINT64_MAX};
    return told(graph->is_measured ? &graph->performance : &nothing, sizeof(nothing), place, size);
}

vx_status vxScheduleGraph(vx_graph graph)
{
    CALLED(failing());
    if (!graph->is_verified || graph->is_running) {
        return -21;
    }
    if (graph->node->kernel->program.target != (uint32_t)number("target", 0x9F)) {
        abort();    /* as the vendor's simulator does */
    }
    graph->is_running = 1;
    graph->performance.beg = now();
    return VX_SUCCESS;
}

/* As the vendor's driver has it: the last, and sums of all. */
static void measure(vx_perf_t *performance)
{
    performance->end = now();
    performance->tmp = fault("absurd") ? 365 * 86400 * UINT64_C(1000000000) : performance->end - performance->beg;
    performance->sum += performance->tmp;
    performance->num++;
    performance->avg = performance->sum / performance->num;
    if (performance->tmp < performance->min) {
        performance->min = performance->tmp;
    }
}

vx_status vxWaitGraph(vx_graph graph)
{
    CALLED(failing());
    const program *run = &graph->node->kernel->program;
    if (!graph->is_running) {
        return -18;
    }
    graph->is_running = 0;
    for (uint32_t k = 0; k < run->n_outputs; k++) {
        const struct _vx_tensor *from = graph->node->operands[k % run->n_inputs];
        struct _vx_tensor *to = graph->node->operands[run->n_inputs + k];
        for (size_t i = 0; i < to->bytes; i++) {
            to->device[i] = (uint8_t)(from->device[i % from->bytes] + run->n_nodes);
        }
    }
    usleep((useconds_t)number("takes", 0));
    for (uint32_t k = 0; fault("prints") && k < run->n_nodes; k++) {
        printf("layerId=%u, layer name=Double, layerOperationCount=1, uid=-1 target:VXNNE_OPERATION_TARGET_%s\n"
               "execution time:             %5u us\n", 60 + k, k % 2 ? "TP" : "NN", 100 * (k + 1));
    }
    measure(&graph->performance);
    return VX_SUCCESS;
}
