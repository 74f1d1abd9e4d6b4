// A device in software, so that all of this works on any machine: memory, queues, instructions, and
// what can go wrong. A vendor deletes this file.
//
// The instructions are int8 kernels on NHWC, bit for bit as TensorFlow Lite's reference
// (tensorflow/lite/kernels/internal/reference/ integer_ops, and gemmlowp/fixedpoint).
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <numeric>
#include <thread>
#include <unistd.h>

#include "device.h"
#include "heap.h"

namespace npu {

const dovetail::Options OPTIONS("ACME_NPU_", {
    {"state", "ready", "what the device says of itself: ready, driver_missing, absent or busy"},
    {"latency_us", 0, "time that each command takes at least, in microseconds"},
    {"compile_ms", 0, "time that compiling takes at least, in milliseconds"},
    {"fail_at", -1, "number of the command that fails, counted from 0 when the device is opened"},
    {"hang_at", -1, "number of the command that never ends"},
    {"sram_bytes", 0, "size of the device's memory; 0: what it has"},
});

const std::vector<dovetail_device_info> DEVICES = {
    {sizeof(dovetail_device_info), 0, 0, 1 << 26, "ACME NPU (software)", "B0", {}},
    {sizeof(dovetail_device_info), 1, 0, 1 << 16, "ACME NPU mini (software)", "A0", {}},
};

int device_state(Attributes options, dovetail_answer *why) {
    static const char *const STATES[][3] = {
        {"ready", "", ""},
        {"driver_missing", "driver_missing", "the driver is not loaded; install it, or load its kernel module"},
        {"absent", "no_device", "no NPU was found; plug it in"},
        {"busy", "device_busy", "another process holds the NPU; end it, or try again later"},
    };
    int state = DOVETAIL_DEVICE_BUSY;
    while (state && STATES[state][0] != OPTIONS.text(options, "state")) state--;
    return dovetail::explain(why, state, STATES[state][1], "", STATES[state][2]);
}

std::string versions() {
    const char *driver = std::getenv("ACME_NPU_DRIVER");
    return std::string("AcmeNpu compiler 1, driver ") + (driver ? driver : "1.0");
}

std::chrono::microseconds compile_time(Attributes options) {
    return std::chrono::milliseconds(options ? OPTIONS.number(options, "compile_ms") : 0);
}

// -- instructions

// x times the factor, rounded twice, ties away from zero: gemmlowp's high half of 2 * x *
// multiplier, then the shift.
static int32_t scaled(int32_t x, FixedPoint by) {
    const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(x) << std::max(by.shift, 0));
    const int64_t product = int64_t{shifted} * by.multiplier;
    const auto high = static_cast<int32_t>((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / (INT64_C(1) << 31));
    const int right = std::max(-by.shift, 0);
    const auto mask = static_cast<int32_t>((INT64_C(1) << right) - 1);
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0) ? 1 : 0);
}

static int8_t clamped(int32_t x, const Instruction &s) { return static_cast<int8_t>(std::min(std::max(x, s.low), s.high)); }

static int8_t finish(uint32_t sum, const Channel &channel, const Instruction &s) {
    const auto whole = static_cast<int32_t>(sum + static_cast<uint32_t>(channel.bias));
    if (s.opcode != Opcode::FULLY_CONNECTED) return clamped(scaled(whole, channel.scale) + s.zero, s);
    return static_cast<int8_t>(std::min<double>(std::max<double>(std::round(whole * channel.factor) + s.zero, s.low), s.high));
}

// The taps [begin, end) of a window along an axis that lie inside the image, and where the first of
// them reads.
struct Taps { int begin, end, at; };

static Taps taps_of(const Instruction &s, Axis axis, int position) {
    const int origin = position * s.stride[axis] - s.padding[axis], begin = std::max(0, -origin);
    return {begin, std::max(begin, std::min(s.kernel[axis], s.in[axis] - origin)), origin + begin};
}

// Call body(rows, columns, output pixel) for each window.
template <typename Body> static void each_window(const Instruction &s, int8_t *output, Body body) {
    for (int y = 0; y < s.out[HEIGHT]; y++)
        for (int x = 0; x < s.out[WIDTH]; x++, output += s.out[CHANNELS])
            body(taps_of(s, HEIGHT, y), taps_of(s, WIDTH, x), output);
}

// Call body(input pixels, number of the first tap) for each row of a window.
template <typename Body>
static void each_row(const Instruction &s, const int8_t *image, const Taps &rows, const Taps &columns, Body body) {
    image += (int64_t{rows.at} * s.in[WIDTH] + columns.at) * s.in[CHANNELS];
    for (int tap = rows.begin; tap < rows.end; tap++, image += int64_t{s.in[WIDTH]} * s.in[CHANNELS])
        body(image, int64_t{tap} * s.kernel[WIDTH] + columns.begin);
}

static void convolve(const Instruction &s, const int8_t *image, const int8_t *weights, const Channel *channels, int8_t *y) {
    const int64_t depth = s.in[CHANNELS], filter_size = int64_t{s.kernel[HEIGHT]} * s.kernel[WIDTH] * depth;
    each_window(s, y, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        for (int filter = 0; filter < s.out[CHANNELS]; filter++) {
            const int32_t zero = channels[filter].weight_zero;
            uint32_t sum = 0;       // wraps, as that of the reference does, if it is too large
            each_row(s, image, rows, columns, [&](const int8_t *x, int64_t tap) {
                const int8_t *w = weights + filter * filter_size + tap * depth;
                for (int64_t i = 0; i < (columns.end - columns.begin) * depth; i++)
                    sum += static_cast<uint32_t>((x[i] - s.zero_a) * (w[i] - zero));
            });
            target[filter] = finish(sum, channels[filter], s);
        }
    });
}

static void convolve_channels(const Instruction &s, const int8_t *image, const int8_t *weights, const Channel *channels,
                              int32_t *sums, int8_t *output) {
    const int multiplier = s.out[CHANNELS] / s.in[CHANNELS];
    each_window(s, output, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        std::fill_n(sums, s.out[CHANNELS], 0);
        each_row(s, image, rows, columns, [&](const int8_t *x, int64_t tap) {
            const int8_t *w = weights + tap * s.out[CHANNELS];
            for (int column = columns.begin; column < columns.end; column++, x += s.in[CHANNELS], w += s.out[CHANNELS])
                for (int c = 0, o = 0; c < s.in[CHANNELS]; c++)
                    for (const int end = o + multiplier; o < end; o++)
                        sums[o] += (x[c] - s.zero_a) * (w[o] - channels[o].weight_zero);
        });
        for (int o = 0; o < s.out[CHANNELS]; o++) target[o] = finish(sums[o], channels[o], s);
    });
}

// Maximum or average. Padding never takes part, and no window lies in the padding alone.
static void pool(const Instruction &s, const int8_t *image, int32_t *sums, int8_t *output) {
    const bool maximum = s.opcode == Opcode::MAXIMUM;
    each_window(s, output, [&](const Taps &rows, const Taps &columns, int8_t *target) {
        std::fill_n(sums, s.out[CHANNELS], maximum ? INT8_MIN : 0);
        each_row(s, image, rows, columns, [&](const int8_t *x, int64_t) {
            for (int column = columns.begin; column < columns.end; column++, x += s.in[CHANNELS])
                for (int c = 0; c < s.in[CHANNELS]; c++) sums[c] = maximum ? std::max<int32_t>(sums[c], x[c]) : sums[c] + x[c];
        });
        const int32_t count = maximum ? 1 : (rows.end - rows.begin) * (columns.end - columns.begin);
        for (int c = 0; c < s.out[CHANNELS]; c++)   // rounded to nearest, ties away from zero
            target[c] = static_cast<int8_t>((sums[c] + (sums[c] > 0 ? count / 2 : -(count / 2))) / count);
    });
}

static void add(const Instruction &s, const int8_t *a, const int8_t *b, int8_t *output) {
    for (int32_t row = 0; row < s.size[0] * s.size[1] * s.size[2]; row++) {
        const int32_t at[] = {row / s.size[2] / s.size[1], row / s.size[2] % s.size[1], row % s.size[2]};
        const int8_t *x = std::inner_product(at, at + 3, s.step_a, a), *y = std::inner_product(at, at + 3, s.step_b, b);
        for (int32_t i = 0; i < s.size[3]; i++, x += s.step_a[3], y += s.step_b[3]) {
            const int32_t left = scaled((*x - s.zero_a) * (1 << 20), s.scale_a);
            const int32_t right = scaled((*y - s.zero_b) * (1 << 20), s.scale_b);
            *output++ = clamped(scaled(left + right, s.scale) + s.zero, s);
        }
    }
}

static void execute(const Instruction &s, int8_t *const *tensors, const char *constants, int32_t *sums) {
    const auto *weights = reinterpret_cast<const int8_t *>(constants + s.weights);
    const auto *channels = reinterpret_cast<const Channel *>(constants + s.channels);
    const int8_t *a = tensors[s.a], *b = tensors[s.b];
    int8_t *output = tensors[s.output];
    switch (s.opcode) {
    case Opcode::CONVOLUTION: case Opcode::FULLY_CONNECTED: return convolve(s, a, weights, channels, output);
    case Opcode::DEPTHWISE: return convolve_channels(s, a, weights, channels, sums, output);
    case Opcode::MAXIMUM: case Opcode::AVERAGE: return pool(s, a, sums, output);
    case Opcode::ADD: return add(s, a, b, output);
    case Opcode::COPY: std::memcpy(output, a, s.in[CHANNELS]);
    }
}

// -- memory

static constexpr uint64_t BASE = UINT64_C(0x4e50550000000000);  // a host that follows such an address ends at once

struct Device::State {
    State(Attributes options, uint64_t bytes)
        : latency_us(OPTIONS.number(options, "latency_us")), fail_at(OPTIONS.number(options, "fail_at")),
          hang_at(OPTIONS.number(options, "hang_at")), memory(BASE, bytes), sram(new int8_t[bytes]) {}

    const int64_t latency_us;
    const int64_t fail_at;
    const int64_t hang_at;
    const pid_t process = getpid();
    std::atomic<int64_t> commands{0};
    Heap memory;
    const std::unique_ptr<int8_t[]> sram;
};

static uint64_t memory_bytes(const dovetail_device_info &info, Attributes options) {
    const int64_t given = OPTIONS.number(options, "sram_bytes");
    return given ? given : info.memory_bytes;
}

Device::Device(const dovetail_device_info &info, Attributes options) : state(new State(options, memory_bytes(info, options))) {}
Device::~Device() = default;

uint64_t Device::allocate(uint64_t bytes) { return state->memory.allocate(bytes); }
void Device::release(uint64_t address) { state->memory.release(address); }

int8_t *Device::resolve(uint64_t address, uint64_t bytes) {
    return state->memory.contains(address, bytes) ? &state->sram[address - BASE] : nullptr;
}

// -- queues

struct Queue::State {
    explicit State(Device &device) : device(device), thread(&State::serve, this) {}

    template <typename Change> void change(Change make) {
        const std::lock_guard hold(lock);
        make();
        changed.notify_all();
    }

    bool over() const { return aborted || stopping || status != DOVETAIL_OK; }

    void serve() {
        std::unique_lock hold(lock);
        for (;; changed.notify_all()) {
            changed.wait(hold, [this] { return first || stopping; });
            if (!first) return;
            const Run &run = *first;
            first = run.next;
            if (!first) last = &first;
            busy = true;
            for (size_t i = 0; i < run.workload.program->header().instructions; i++) {
                carry_out(run.workload.program->instructions()[i], run, hold);
            }
            busy = false;
        }
    }

    void carry_out(const Instruction &step, const Run &run, std::unique_lock<std::mutex> &hold) {
        if (over()) return;
        const int64_t begin = now();
        const int64_t number = device.state->commands++;
        const char *constants = run.workload.program->constants();
        changed.wait_for(hold, std::chrono::microseconds(device.state->latency_us), [this] { return over(); });
        if (number == device.state->hang_at) changed.wait(hold, [this] { return over(); });
        if (over()) return;
        if (number == device.state->fail_at) {
            status = DOVETAIL_FAILED;
            failure = "command " + std::to_string(number) + ", of '" + (constants + step.name) + "', failed";
            return;
        }
        hold.unlock();
        execute(step, run.tensors.data(), constants, reinterpret_cast<int32_t *>(device.resolve(run.scratch, 1)));
        hold.lock();
        if (is_profiled) spans.push_back({sizeof(dovetail_span), run.call, constants + step.name, begin, now()});
    }

    static int64_t now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

    Device &device;
    std::mutex lock;
    std::condition_variable changed;
    Run *first = nullptr;
    Run **last = &first;
    std::string failure;
    std::vector<dovetail_span> spans;   // one for each command of the run that is profiled
    bool is_profiled = false;
    bool busy = false;
    bool aborted = false;
    bool stopping = false;
    int status = DOVETAIL_OK;
    std::thread thread;                 // begins last: it needs the others
};

// A child process has no part in the device of its parent.
static Device &owned(Device &device) {
    if (getpid() != device.state->process) throw dovetail::Refusal(DOVETAIL_FORKED, "forked", "it was forked");
    return device;
}

Queue::Queue(void *device) : state(new State(owned(dovetail::as<Device>(device)))) {}

Queue::~Queue() {
    state->change([this] { state->stopping = true; });
    state->thread.join();
}

void Queue::enqueue(Run *run) {
    state->change([this, run] {
        run->next = nullptr;
        *state->last = run;
        state->last = &run->next;
    });
}

void Queue::abort() {
    state->change([this] { state->aborted = true; });
}

int Queue::wait(int64_t deadline) {
    const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};  // CLOCK_MONOTONIC
    std::unique_lock hold(state->lock);
    if (!state->changed.wait_until(hold, until, [this] { return !state->first && !state->busy; })) return DOVETAIL_PENDING;
    const int answer = state->status == DOVETAIL_OK && state->aborted ? DOVETAIL_CANCELLED : state->status;
    state->status = DOVETAIL_OK;
    state->aborted = false;
    return answer;
}

const char *Queue::error() const { return state->failure.c_str(); }

// The simulator's clock is the host's: a device with a clock of its own adds clock(device, host).
void Queue::profile(bool wanted) {
    state->change([this, wanted] {
        state->spans.clear();
        state->is_profiled = wanted;
    });
}

int Queue::span(int32_t index, dovetail_span *span) const {
    if (size_t(index) >= state->spans.size()) return 1;
    *span = state->spans[index];
    return DOVETAIL_OK;
}

}  // namespace npu
