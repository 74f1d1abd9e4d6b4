// What the backend needs of a device. Behind it stands simulator.cpp; a vendor deletes that file
// and calls the driver instead.
#pragma once

#include <chrono>
#include <memory>

#include "program.h"

namespace npu {

using Attributes = const dovetail_attributes *;

// The options of the backend. Those of the simulator make it slow, full or broken, to see what an
// application does then.
extern const dovetail::Options OPTIONS;

// The devices there are, by index, known without opening any.
extern const std::vector<dovetail_device_info> DEVICES;

// What a device says of itself: DOVETAIL_DEVICE_..., and why if it is not ready.
int device_state(Attributes options, dovetail_answer *why);

// Versions of compiler and driver: what was compiled by others is compiled again.
std::string versions();

// How long compiling takes at least; a compiler takes its own time.
std::chrono::microseconds compile_time(Attributes options);

// An open device and its memory.
class Device {
public:
    Device(const dovetail_device_info &info, Attributes options);
    ~Device();

    uint64_t allocate(uint64_t bytes);          // throws std::bad_alloc
    void release(uint64_t address);
    int8_t *resolve(uint64_t address, uint64_t bytes);      // NULL: they do not lie in this memory

    struct State;
    const std::unique_ptr<State> state;
};

struct Workload {
    Device &device;
    const std::shared_ptr<const Program> program;
    int host_tensor = -1;               // of a copy: the tensor that lies in host memory
};

// What one run of a workload needs for itself; it is the command that is enqueued, too, so that
// enqueueing allocates nothing.
struct Run {
    explicit Run(const Workload &workload);
    ~Run() { workload.device.release(scratch); }

    const Workload &workload;
    const uint64_t scratch;
    std::vector<int8_t *> tensors;      // where each tensor of the program lies
    const dovetail_call *call = nullptr;
    Run *next = nullptr;
};

// Carries out runs, one after the other. `dovetail_queues` in abi.h says what each function does.
class Queue {
public:
    explicit Queue(void *device);
    ~Queue();

    void enqueue(Run *run);
    int wait(int64_t deadline);
    void abort();
    const char *error() const;
    void profile(bool wanted);
    int span(int32_t index, dovetail_span *span) const;

private:
    struct State;
    const std::unique_ptr<State> state;
};

}  // namespace npu
