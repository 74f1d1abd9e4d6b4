// What the compiler makes and the device carries out.
#pragma once

#include <string>
#include <vector>

#include "cpp_backend.h"

namespace npu {

using Info = dovetail_tensor_info;

enum class Opcode : int32_t { CONVOLUTION, DEPTHWISE, FULLY_CONNECTED, MAXIMUM, AVERAGE, ADD, COPY };
enum class Place : int32_t { INPUT, OUTPUT, SCRATCH };
enum Axis { HEIGHT, WIDTH, CHANNELS };

// A real factor as multiplier * 2^(shift - 31).
struct FixedPoint {
    int32_t multiplier;
    int32_t shift;
};

// Parameters of an output channel. Fully connected layers scale by `factor`, the others by `scale`,
// which stands for it.
struct Channel {
    double factor;
    FixedPoint scale;
    int32_t bias;
    int32_t weight_zero;
};

// A tensor of a program: which of the workload's inputs or outputs, or where in the scratch memory.
struct Tensor {
    Place place;
    int32_t index;
    uint64_t offset;
    uint64_t bytes;
};

struct Instruction {
    Opcode opcode;
    int32_t a, b, output, reserved;             // numbers of tensors
    int32_t in[3], out[3];                      // by Axis
    int32_t kernel[2], stride[2], padding[2];   // padding above and to the left; the rest shows in `out`
    int32_t zero_a, zero_b, zero, low, high;    // zero points, and the clamp of the result
    int32_t size[4], step_a[4], step_b[4];      // of an addition: loops, and by how much each advances an operand
    FixedPoint scale_a, scale_b, scale;
    uint64_t weights, channels, name;           // offsets of the constants
};

struct Header {
    uint64_t tensors;
    uint64_t instructions;
    uint64_t scratch;
};

// One run of bytes without pointers: header, tensors, instructions, constants. So it can be kept.
struct Program {
    std::string bytes;

    const Header &header() const { return *reinterpret_cast<const Header *>(bytes.data()); }
    const Tensor *tensors() const { return reinterpret_cast<const Tensor *>(&header() + 1); }
    const Instruction *instructions() const { return reinterpret_cast<const Instruction *>(tensors() + header().tensors); }
    const char *constants() const { return reinterpret_cast<const char *>(instructions() + header().instructions); }
};

// Compile layers that the manifest claims. Throws dovetail::Refusal if the caller gives up.
Program compile(const dovetail_subgraph &part, const dovetail_attributes *options, const dovetail_progress *progress);

Program assemble(const std::vector<Tensor> &tensors, const std::vector<Instruction> &steps, const std::string &constants,
                 uint64_t scratch);

}  // namespace npu
