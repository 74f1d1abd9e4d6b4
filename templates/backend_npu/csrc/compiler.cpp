// From layers to a program.
#include <cmath>
#include <cstring>
#include <map>
#include <thread>

#include "device.h"
#include "heap.h"

namespace npu {

static uint64_t append(std::string &constants, const void *bytes, size_t count) {
    constants.resize((constants.size() + 7) / 8 * 8);
    constants.append(static_cast<const char *>(bytes), count);
    return constants.size() - count;
}

// Source: tensorflow/lite/kernels/internal/quantization_util.cc, QuantizeMultiplier.
static FixedPoint fixed_point(double factor) {
    int shift = 0;
    int64_t multiplier = std::llround(std::frexp(factor, &shift) * 2147483648.0);
    if (multiplier == INT64_C(1) << 31) {
        multiplier /= 2;
        shift++;
    }
    return shift < -31 ? FixedPoint{0, 0} : FixedPoint{int32_t(multiplier), shift};
}

// What a fused activation leaves. Source: tensorflow/lite/kernels/kernel_util.cc,
// CalculateActivationRangeQuantized.
static void clamp(const dovetail_layer &layer, Instruction &s) {
    const auto limit = [&](const char *attribute) {
        const double value = dovetail_real(&layer.attributes, attribute, 0, 0.0);
        return s.zero + int32_t(std::clamp(std::round(float(value / layer.outputs[0]->scales[0])), -1e9F, 1e9F));
    };
    const std::string activation = dovetail_string(&layer.attributes, "activation", "");
    s.low = INT8_MIN;
    s.high = INT8_MAX;
    if (activation == "relu") s.low = std::max(s.low, s.zero);
    if (activation == "bounded_relu") {
        s.low = std::max(s.low, limit("activation_beta"));
        s.high = std::max(s.low, std::min(s.high, limit("activation_alpha")));
    }
}

static void weigh(const dovetail_layer &layer, std::string &constants, Instruction &s) {
    const Info &weights = *layer.inputs[1];
    const Info *bias = layer.n_inputs > 2 ? layer.inputs[2] : nullptr;
    std::vector<Channel> channels(s.out[CHANNELS]);
    for (size_t c = 0; c < channels.size(); c++) {
        const size_t which = weights.axis < 0 ? 0 : c;
        const double factor = layer.inputs[0]->scales[0] * weights.scales[which] / layer.outputs[0]->scales[0];
        const int32_t start = bias ? static_cast<const int32_t *>(bias->constant)[c] : 0;
        channels[c] = {factor, fixed_point(factor), start, int32_t(weights.zero_points[which])};
    }
    s.weights = append(constants, weights.constant, dovetail_info_bytes(&weights));
    s.channels = append(constants, channels.data(), channels.size() * sizeof(Channel));
}

// By how many elements each loop advances an operand, which broadcasts as in NumPy.
static void steps(const Info &info, int32_t *sizes, int32_t *step) {
    int32_t elements = 1;
    for (int32_t i = 3; i >= 0; i--) {
        const int32_t axis = i + info.ndim - 4;
        const int32_t size = axis < 0 ? 1 : int32_t(info.shape[axis]);
        sizes[i] = std::max(sizes[i], size);
        step[i] = size == 1 ? 0 : elements;
        elements *= size;
    }
}

// Both operands are brought to twice the larger scale. TensorFlow Lite keeps scales in float32.
static void add(const Info &a, const Info &b, const Info &y, Instruction &s) {
    const float scale_a = float(a.scales[0]);
    const float scale_b = float(b.scales[0]);
    const double widest = 2.0 * std::max(scale_a, scale_b);
    s.zero_b = int32_t(b.zero_points[0]);
    s.scale_a = fixed_point(scale_a / widest);
    s.scale_b = fixed_point(scale_b / widest);
    s.scale = fixed_point(widest / (double{1 << 20} * float(y.scales[0])));
    steps(a, s.size, s.step_a);
    steps(b, s.size, s.step_b);
}

static Instruction translate(const dovetail_layer &layer, std::string &constants) {
    const std::string kind = std::strchr(layer.kind, '.') + 1;
    const Info &x = *layer.inputs[0];
    const Info &y = *layer.outputs[0];
    const Info *second = layer.inputs[layer.n_inputs > 1];     // weights, or the other operand
    const std::string function = dovetail_string(&layer.attributes, "function", "");
    Instruction s{};
    s.name = append(constants, layer.name, std::strlen(layer.name) + 1);
    s.zero_a = x.scales ? int32_t(x.zero_points[0]) : 0;
    s.zero = y.scales ? int32_t(y.zero_points[0]) : 0;
    s.in[HEIGHT] = s.in[WIDTH] = s.out[HEIGHT] = s.out[WIDTH] = 1;  // a fully connected layer is a convolution of one pixel
    s.in[CHANNELS] = int32_t(dovetail_info_bytes(&x));
    s.out[CHANNELS] = int32_t(dovetail_info_bytes(&y));
    clamp(layer, s);
    s.opcode = kind == "ElementwiseBinary" ? Opcode::ADD : Opcode::COPY;
    if (s.opcode == Opcode::ADD) add(x, *second, y, s);
    if (s.opcode == Opcode::ADD || kind == "Reshape" || kind == "Flatten") return s;
    for (int axis = 0; axis < 3 && x.ndim == 4; axis++) {
        s.in[axis] = int32_t(x.shape[axis + 1]);
        s.out[axis] = int32_t(y.shape[axis + 1]);
    }
    for (int axis = 0; axis < 2; axis++) {
        const int64_t whole = !function.empty() ? s.in[axis] : x.ndim == 4 ? second->shape[axis + 1] : 1;
        s.kernel[axis] = int32_t(dovetail_integer(&layer.attributes, "size", axis, whole));
        s.stride[axis] = int32_t(dovetail_integer(&layer.attributes, "stride", axis, 1));
        s.padding[axis] = int32_t(dovetail_integer(&layer.attributes, "padding", axis, 0));
    }
    if (!function.empty()) {
        s.opcode = function == "max" ? Opcode::MAXIMUM : Opcode::AVERAGE;
        return s;
    }
    s.opcode = kind == "Convolution2d" ? Opcode::CONVOLUTION : Opcode::DEPTHWISE;
    if (kind == "FullyConnected") s.opcode = Opcode::FULLY_CONNECTED;
    weigh(layer, constants, s);
    return s;
}

// Tell how far we are, for as long as the step shall take.
static void report(const dovetail_progress *progress, double fraction, const char *what, std::chrono::microseconds duration) {
    const auto end = std::chrono::steady_clock::now() + duration;
    do {
        if (progress && progress->report(progress->context, fraction, what))
            throw dovetail::Refusal(DOVETAIL_CANCELLED, "cancelled", "compiling was given up");
        std::this_thread::sleep_for(std::min(duration, std::chrono::microseconds(5000)));
    } while (std::chrono::steady_clock::now() < end);
}

Program compile(const dovetail_subgraph &part, const dovetail_attributes *options, const dovetail_progress *progress) {
    std::map<int32_t, int32_t> numbers;     // by tensor id: its number in the program
    std::map<int32_t, int32_t> last_read;   // by tensor id: the last layer that reads it
    std::vector<Tensor> tensors;
    std::vector<Instruction> instructions;
    std::string constants;
    Heap scratch(0, INT64_MAX);
    int64_t widest = 0;
    const auto place = [&](const Info *info, Place where, int32_t index) {
        if (!info || info->constant || !numbers.emplace(info->id, tensors.size()).second) return;
        const uint64_t bytes = dovetail_info_bytes(info);
        tensors.push_back({where, index, where == Place::SCRATCH ? scratch.allocate(bytes) : 0, bytes});
    };
    for (int i = 0; i < part.n_inputs; i++) place(part.inputs[i], Place::INPUT, i);
    for (int i = 0; i < part.n_outputs; i++) place(part.outputs[i], Place::OUTPUT, i);
    for (int i = 0; i < part.n_layers; i++) {
        const dovetail_layer &layer = *part.layers[i];
        if (layer.outputs[0]->ndim) widest = std::max(widest, layer.outputs[0]->shape[layer.outputs[0]->ndim - 1]);
        for (int k = 0; k < layer.n_inputs; k++)
            if (layer.inputs[k]) last_read[layer.inputs[k]->id] = i;
    }
    scratch.allocate(widest * sizeof(int32_t));         // the first place: where instructions sum
    for (int i = 0; i < part.n_layers; i++) {
        const dovetail_layer &layer = *part.layers[i];
        report(progress, 1.0 * i / part.n_layers, layer.name, compile_time(options) / part.n_layers);
        place(layer.outputs[0], Place::SCRATCH, 0);
        Instruction step = translate(layer, constants);
        const Info &a = *layer.inputs[0];
        const Info &b = step.opcode == Opcode::ADD ? *layer.inputs[1] : a;
        step.a = numbers.at(a.id);
        step.b = numbers.at(b.id);
        step.output = numbers.at(layer.outputs[0]->id);
        instructions.push_back(step);
        for (const int32_t id : {a.id, b.id})
            if (last_read[id] == i && tensors[numbers[id]].place == Place::SCRATCH)
                scratch.release(tensors[numbers[id]].offset);
    }
    return assemble(tensors, instructions, constants, scratch.high_water());
}

Program assemble(const std::vector<Tensor> &tensors, const std::vector<Instruction> &steps, const std::string &constants,
                 uint64_t scratch) {
    const Header header{tensors.size(), steps.size(), scratch};
    std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char *>(tensors.data()), tensors.size() * sizeof(Tensor));
    bytes.append(reinterpret_cast<const char *>(steps.data()), steps.size() * sizeof(Instruction));
    return {bytes + constants};
}

}  // namespace npu
