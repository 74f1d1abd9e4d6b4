// Which layers this NPU takes. The claims in dovetail-backend.json say the same as data; a test holds the two together.
#include "program.h"

#include <map>

namespace npu {

using dovetail::Refusal;
using Rules = std::vector<dovetail_rule>;
constexpr const char *NUMBER = DOVETAIL_NUMBER;
constexpr int64_t ANY = INT64_MAX;

static const Rules WEIGHTED = {
    {"input.dtype", "int8"}, {"weights.dtype", "int8"}, {"bias.dtype", "int32, none"},
    {"input.constant", "false"}, {"weights.constant", "true"}, {"bias.constant", "true, none"},
    {"input.quantization", "per_tensor"}, {"output.quantization", "per_tensor"},
    {"weights.quantization", "per_tensor, per_axis"}, {"activation", "relu, bounded_relu, none"},
};
static const Rules POOLED = {
    {"input.dtype", "int8"}, {"input.constant", "false"}, {"function", "max, average"},
    {"input.quantization", "per_tensor"}, {"output.quantization", "per_tensor"},
};
static const Rules IMAGE = {
    {"input.rank", NUMBER, 4, 4}, {"layout", "NHWC"}, {"input.batch", NUMBER, 1, 1}, {"input.elements", NUMBER, 1, ANY},
};
static const Rules WINDOW = {
    {"auto_padding", "explicit"}, {"stride", NUMBER, 1, 2}, {"dilation", NUMBER, 1, 1}, {"padding", NUMBER, 0, 7},
};
static const Rules FILTER = {{"weights.height", NUMBER, 1, 7}, {"weights.width", NUMBER, 1, 7}};
static const Rules DENSE = {        // 1 to 4 channels: a first layer
    {"groups", NUMBER, 1, 1}, {"input.channels", NUMBER, 8, ANY, 8, 4}, {"output.channels", NUMBER, 8, ANY, 8},
};
static const Rules EIGHTS = {{"input.channels", NUMBER, 8, ANY, 8}};
static const Rules POOLING = {{"size", NUMBER, 1, 7}, {"ceil_mode", "false"}, {"count_padding", "false"}};
static const Rules GLOBAL = {{"input.height", NUMBER, 1, 16}, {"input.width", NUMBER, 1, 16}};
static const Rules CONNECTED = {
    {"input.rank", NUMBER, 2, 2}, {"input.0", NUMBER, 1, 1}, {"input.1", NUMBER, 16, ANY, 16}, {"output.1", NUMBER, 1, ANY},
};
static const Rules ADDITION = {
    {"a.dtype", "int8"}, {"operation", "add"}, {"activation", "relu, bounded_relu, none"}, {"a.constant", "false"},
    {"b.constant", "false"}, {"a.quantization", "per_tensor"}, {"b.quantization", "per_tensor"},
    {"output.quantization", "per_tensor"}, {"output.rank", NUMBER, 0, 4}, {"output.elements", NUMBER, 1, ANY},
};
static const Rules RESHAPING = {{"input.dtype", "int8"}, {"input.constant", "false"}, {"input.elements", NUMBER, 1, ANY}};

static const std::map<std::string, std::vector<const Rules *>> KINDS = {
    {"dovetail.Convolution2d", {&WEIGHTED, &IMAGE, &WINDOW, &FILTER, &DENSE}},
    {"dovetail.DepthwiseConvolution2d", {&WEIGHTED, &IMAGE, &WINDOW, &FILTER, &EIGHTS}},
    {"dovetail.FullyConnected", {&WEIGHTED, &CONNECTED}},
    {"dovetail.Pooling2d", {&POOLED, &IMAGE, &WINDOW, &EIGHTS, &POOLING}},
    {"dovetail.GlobalPooling", {&POOLED, &IMAGE, &EIGHTS, &GLOBAL}},
    {"dovetail.ElementwiseBinary", {&ADDITION}},
    {"dovetail.Reshape", {&RESHAPING}}, {"dovetail.Flatten", {&RESHAPING}},
};

bool supports(const dovetail_layer &layer, dovetail_answer *why) {
    const auto kind = KINDS.find(layer.kind);
    if (kind == KINDS.end()) throw Refusal(0, "kind", std::string("this NPU has no instruction for ") + layer.kind);
    for (const Rules *rules : kind->second)
        if (!dovetail_obeys(&layer, rules->data(), rules->size(), why)) return false;
    // What holds for every backend, and so does not stand in the claims.
    const Info &x = *layer.inputs[0], &y = *layer.outputs[0], *weights = layer.inputs[layer.n_inputs > 1];
    if (weights && weights->axis >= 0 && weights->axis != (kind->first == "dovetail.DepthwiseConvolution2d" ? 3 : 0))
        throw Refusal(0, "quantization", "this NPU scales filters, not axis " + std::to_string(weights->axis), "weights");
    const bool pools = dovetail_attribute_named(&layer.attributes, "function");
    if (pools && (x.scales[0] != y.scales[0] || x.zero_points[0] != y.zero_points[0]))
        throw Refusal(0, "quantization", "pooling keeps the quantization: that of the output must be the input's", "output");
    return true;
}

}  // namespace npu
