/* The half of the double that compiles. */
#include "double.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_BYTES = 576, GRAPH_BYTES = 224, MOST = 4096 };

struct _vsi_nn_context {
    int unused;
};

typedef struct {
    vsi_nn_graph_t shown;
    uint8_t more[GRAPH_BYTES - sizeof(vsi_nn_graph_t)];
    vsi_nn_tensor_t *tensors[MOST];
    vsi_nn_node_t *nodes[MOST];
    uint32_t n_tensors, n_nodes, tensor_room, node_room;
    uint32_t numbers[2][MOST_OPERANDS];     /* of inputs and of outputs */
    uint32_t counts[2];
    int is_set_up, was_generated;
} graph;

static graph *of(const vsi_nn_graph_t *shown)
{
    return (graph *)shown;
}

static uint32_t version(int part)
{
    int parts[3] = {1, 2, 30};
    const char *text = fault("version");
    if (text) {
        sscanf(text, "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
    }
    return (uint32_t)parts[part];
}

uint32_t vsi_nn_GetVersionMajor(void)
{
    return version(0);
}

uint32_t vsi_nn_GetVersionMinor(void)
{
    return version(1);
}

uint32_t vsi_nn_GetVersionPatch(void)
{
    return version(2);
}

vsi_nn_context_t vsi_nn_CreateContext(void)
{
    CALLED(NULL);
    note("+nn_context");
    return calloc(1, sizeof(struct _vsi_nn_context));
}

void vsi_nn_ReleaseContext(vsi_nn_context_t *context)
{
    note("-nn_context");
    free(*context);
    *context = NULL;
}

vsi_nn_graph_t *vsi_nn_CreateGraph(vsi_nn_context_t context, uint32_t tensors, uint32_t nodes)
{
    CALLED(NULL);
    graph *made = calloc(1, sizeof(graph));
    made->shown.ctx = context;
    made->tensor_room = tensors < MOST ? tensors : MOST;
    made->node_room = nodes < MOST ? nodes : MOST;
    note("+nn_graph");
    return &made->shown;
}

vx_status vsi_nn_SetGraphVersion(vsi_nn_graph_t *shown, uint32_t major, uint32_t minor, uint32_t patch)
{
    (void)shown;
    CALLED(failing());
    return major == version(0) && minor == version(1) && patch == version(2) ? VX_SUCCESS : -10;
}

void vsi_nn_ReleaseGraph(vsi_nn_graph_t **shown)
{
    graph *released = of(*shown);
    note("-nn_graph");
    for (uint32_t i = 0; i < released->n_tensors; i++) {
        free(released->tensors[i]);
    }
    for (uint32_t i = 0; i < released->n_nodes; i++) {
        free(released->nodes[i]->input.tensors);
        free(released->nodes[i]->output.tensors);
        free(released->nodes[i]);
    }
    free(released);
    *shown = NULL;
}

uint32_t vsi_nn_AddTensor(vsi_nn_graph_t *shown, uint32_t id, vsi_nn_tensor_attr_t *attributes, uint8_t *content)
{
    CALLED((uint32_t)VSI_NN_NONE);
    graph *in = of(shown);
    if (in->n_tensors == in->tensor_room || id != (uint32_t)VSI_NN_AUTO || attributes->is_const != (content != NULL)) {
        return (uint32_t)VSI_NN_NONE;
    }
    vsi_nn_tensor_t *made = calloc(1, sizeof(vsi_nn_tensor_t) + 64);
    made->attr = *attributes;
    made->t = fault("layout") ? NULL : (vx_tensor)made;
    char sizes[128] = "";
    for (uint32_t i = 0; i < attributes->dim_num; i++) {
        snprintf(sizes + strlen(sizes), sizeof(sizes) - strlen(sizes), "%s%u", i ? "x" : "", attributes->size[i]);
    }
    note("tensor %u %s type %d quantized %d virtual %d constant %d", in->n_tensors, sizes, attributes->dtype.vx_type,
         attributes->dtype.qnt_type, attributes->is_virtual, attributes->is_const);
    in->tensors[in->n_tensors] = made;
    return in->n_tensors++;
}

vsi_nn_tensor_t *vsi_nn_GetTensor(const vsi_nn_graph_t *shown, uint32_t id)
{
    CALLED(NULL);
    return id < of(shown)->n_tensors ? of(shown)->tensors[id] : NULL;
}

vsi_nn_node_t *vsi_nn_AddNode(vsi_nn_graph_t *shown, int32_t op, uint32_t inputs, uint32_t outputs, uint32_t *id)
{
    CALLED(NULL);
    graph *in = of(shown);
    if (in->n_nodes == in->node_room) {
        return NULL;
    }
    vsi_nn_node_t *made = calloc(1, NODE_BYTES);
    made->op = op;
    made->input.num = inputs;
    made->input.tensors = calloc(inputs, sizeof(uint32_t));
    made->output.num = outputs;
    made->output.tensors = calloc(outputs, sizeof(uint32_t));
    if (!fault("layout") || strcmp(fault("layout"), "nodes") != 0) {
        made->vx_param.overflow_policy = VX_CONVERT_POLICY_WRAP;
        made->vx_param.rounding_policy = VX_ROUND_POLICY_TO_ZERO;
    }
    in->nodes[in->n_nodes] = made;
    *id = in->n_nodes++;
    return made;
}

static int32_t set_operands(vsi_nn_graph_t *shown, int which, const uint32_t *ids, uint32_t count)
{
    graph *in = of(shown);
    if (count == 0 || count > MOST_OPERANDS) {
        return 0;
    }
    memcpy(in->numbers[which], ids, count * sizeof(uint32_t));
    in->counts[which] = count;
    return 1;
}

int32_t vsi_nn_SetGraphInputs(vsi_nn_graph_t *shown, uint32_t *ids, uint32_t count)
{
    CALLED(0);
    return set_operands(shown, 0, ids, count);
}

int32_t vsi_nn_SetGraphOutputs(vsi_nn_graph_t *shown, uint32_t *ids, uint32_t count)
{
    CALLED(0);
    return set_operands(shown, 1, ids, count);
}

/* Log a node with what was written into it. */
static void describe(const vsi_nn_node_t *node)
{
    char text[512] = "";
    for (uint32_t i = 0; i < node->input.num; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%u", i ? "," : "", node->input.tensors[i]);
    }
    snprintf(text + strlen(text), sizeof(text) - strlen(text), " to %u", node->output.tensors[0]);
    size_t used = strlen(text), room = sizeof(text) - used;
    const ovxlib_parameters *p = &node->nn_param;
    const ovxlib_convolution *c = &p->convolution;
    const ovxlib_pooling *w = &p->pooling;
    if (node->op == VSI_NN_OP_CONV2D || node->op == VSI_NN_OP_GROUPED_CONV2D) {
        snprintf(text + used, room, " kernel %u,%u stride %u,%u pad %u,%u,%u,%u dilation %u,%u weights %u group %u multiplier %d",
                 c->kernel[0], c->kernel[1], c->stride[0], c->stride[1], c->pad[0], c->pad[1], c->pad[2], c->pad[3],
                 c->dilation[0], c->dilation[1], c->weights, c->group, c->multiplier);
    } else if (node->op == VSI_NN_OP_POOL) {
        snprintf(text + used, room, " type %#x kernel %u,%u stride %u,%u pad %u,%u,%u,%u", (unsigned)w->type, w->kernel[0],
                 w->kernel[1], w->stride[0], w->stride[1], w->pad[0], w->pad[1], w->pad[2], w->pad[3]);
    } else if (node->op == VSI_NN_OP_SOFTMAX) {
        snprintf(text + used, room, " beta %g axis %d", p->softmax.beta, p->softmax.axis);
    } else if (node->op == VSI_NN_OP_CONCAT) {
        snprintf(text + used, room, " axis %u", p->concat.axis);
    } else if (node->op == VSI_NN_OP_PAD2) {
        snprintf(text + used, room, " front %u,%u back %u,%u of %u value %g", p->pad.front[0], p->pad.front[1], p->pad.back[0],
                 p->pad.back[1], p->pad.dim_num, p->pad.value);
    } else if (node->op == VSI_NN_OP_PERMUTE) {
        snprintf(text + used, room, " order %u,%u,%u,%u", p->permute.order[0], p->permute.order[1], p->permute.order[2],
                 p->permute.order[3]);
    } else if (node->op == VSI_NN_OP_RESHAPE2) {
        snprintf(text + used, room, " size %u,%u of %u", p->reshape.size[0], p->reshape.size[1], p->reshape.dim_num);
    } else if (node->op == VSI_NN_OP_RESIZE) {
        snprintf(text + used, room, " type %d size %d,%d corners %d half %d", p->resize.type, p->resize.size[0], p->resize.size[1],
                 p->resize.align_corners, p->resize.half_pixel_centers);
    }
    note("node %d of %u: %s", node->op, node->uid, text);
}

vx_status vsi_nn_SetupGraph(vsi_nn_graph_t *shown, int32_t sort)
{
    CALLED(failing());
    graph *in = of(shown);
    for (uint32_t i = 0; i < in->n_nodes; i++) {
        for (uint32_t j = 0; j < in->nodes[i]->input.num; j++) {
            if (in->nodes[i]->input.tensors[j] >= in->n_tensors) {
                return -12;
            }
        }
        describe(in->nodes[i]);
    }
    in->is_set_up = sort;
    return VX_SUCCESS;
}

static void tell(record *told, const vsi_nn_tensor_attr_t *attributes)
{
    memset(told, 0, sizeof(*told));
    told->rank = attributes->dim_num;
    for (uint32_t i = 0; i < MOST_AXES; i++) {
        told->sizes[i] = i < told->rank ? attributes->size[i] : 1;
    }
    told->type = attributes->dtype.vx_type == VX_TYPE_UINT8 ? 2 : 3;
    told->quantization = 2;
    told->scale = attributes->dtype.scale;
    told->zero_point = attributes->dtype.zero_point;
    strcpy(told->name, "input/output[0]");
}

vx_status vsi_nn_GenerateNBG(vsi_nn_graph_t *shown, void *place, size_t *size)
{
    CALLED(failing());
    graph *in = of(shown);
    program made = {0};
    if (!in->is_set_up || in->counts[0] == 0 || in->counts[1] == 0) {
        return -18;
    }
    made.target = (uint32_t)number("makes", number("target", 0x9F));
    made.n_inputs = in->counts[0];
    made.n_outputs = in->counts[1];
    made.n_nodes = in->n_nodes;
    for (int which = 0; which < 2; which++) {
        for (uint32_t i = 0; i < in->counts[which]; i++) {
            tell(&made.operands[(which ? made.n_inputs : 0) + i], &in->tensors[in->numbers[which][i]]->attr);
        }
    }
    *size = binary_write(&made, place) + (place && fault("overflow") ? 1 : 0);
    return VX_SUCCESS;
}
