// The device: memory of its own, and queues that carry out programs. Here it is software; a vendor's driver takes its place.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <unistd.h>

#include "program.h"

namespace npu {

// Addresses, first fit. The device gives out its memory with it, and the compiler the scratch memory of a program.
class Heap {
public:
    Heap(uint64_t begin, uint64_t bytes) : high_water(begin), begin(begin), end(begin + bytes) {}

    uint64_t allocate(uint64_t bytes) {
        const std::lock_guard hold(lock);
        const uint64_t rounded = std::max<uint64_t>(1, (bytes + 63) / 64) * 64;
        uint64_t at = begin;
        for (auto one = taken.begin(); one != taken.end() && one->first - at < rounded; ++one) at = one->second;
        if (end - at < rounded) throw std::bad_alloc();
        high_water = std::max(high_water, taken[at] = at + rounded);
        return at;
    }
    void release(uint64_t at) { const std::lock_guard hold(lock); taken.erase(at); }
    bool contains(uint64_t at, uint64_t bytes) {    // within one allocation
        const std::lock_guard hold(lock);
        const auto after = taken.upper_bound(at);
        return after != taken.begin() && std::prev(after)->second >= at + bytes;
    }
    uint64_t high_water;

private:
    const uint64_t begin, end;
    std::map<uint64_t, uint64_t> taken;             // begin to end
    std::mutex lock;
};

struct Device {
    static constexpr uint64_t BASE = UINT64_C(0x4e50550000000000);  // a host that follows such an address ends at once

    // The numbers are those of the options.
    Device(int64_t latency_us, int64_t fail_at, int64_t hang_at, int64_t sram_bytes)
        : latency_us(latency_us), fail_at(fail_at), hang_at(hang_at), memory(BASE, sram_bytes), sram(new int8_t[sram_bytes]) {}

    int8_t *resolve(uint64_t at, uint64_t bytes) { return memory.contains(at, bytes) ? &sram[at - BASE] : nullptr; }

    // A child process has no part in the device of its parent.
    Device &here() { return getpid() == process ? *this : throw dovetail::Refusal(DOVETAIL_FORKED, "forked", "it was forked"); }

    const int64_t latency_us, fail_at, hang_at;
    const pid_t process = getpid();
    std::atomic<int64_t> commands{0};
    Heap memory;
    const std::unique_ptr<int8_t[]> sram;
};

struct Workload {
    Device &device;
    const std::shared_ptr<const Program> program;
    int host_tensor = -1;               // of a copy: the tensor that lies in host memory
};

// What one run of a workload needs for itself; it is the command that is enqueued, too, so that enqueueing allocates nothing.
struct Run {
    explicit Run(const Workload &workload)
        : workload(workload), scratch(workload.device.memory.allocate(workload.program->header().scratch)),
          tensors(workload.program->header().tensors) {
        for (size_t i = 0; i < tensors.size(); i++)
            tensors[i] = workload.device.resolve(scratch, 1) + workload.program->tensors()[i].offset;
    }
    ~Run() { workload.device.memory.release(scratch); }

    const Workload &workload;
    const uint64_t scratch;
    std::vector<int8_t *> tensors;      // where each tensor of the program lies
    Run *next = nullptr;
};

class Queue {
public:
    explicit Queue(void *context) : device(dovetail::as<Device>(context).here()), thread(&Queue::serve, this) {}
    ~Queue() { change([this] { stopping = true; }), thread.join(); }
    void enqueue(Run *run) { change([=] { run->next = nullptr, *last = run, last = &run->next; }); }
    void abort() { change([this] { aborted = true; }); }
    int wait(int64_t deadline) {
        const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline)};  // CLOCK_MONOTONIC
        std::unique_lock hold(lock);
        if (!changed.wait_until(hold, until, [this] { return !first && !busy; })) return DOVETAIL_PENDING;
        const int answer = status == DOVETAIL_OK && aborted ? DOVETAIL_CANCELLED : status;
        status = DOVETAIL_OK, aborted = false;
        return answer;
    }
    const char *error() const { return failure.c_str(); }

private:
    template <typename Change> void change(Change make) { const std::lock_guard hold(lock); make(), changed.notify_all(); }
    void serve() {
        std::unique_lock hold(lock);
        for (;; changed.notify_all()) {
            changed.wait(hold, [this] { return first || stopping; });
            if (!first) return;
            const Run &run = *first;
            if (!(first = run.next)) last = &first;
            busy = true;
            for (size_t i = 0; i < run.workload.program->header().instructions; i++)
                carry_out(run.workload.program->instructions()[i], run, hold);
            busy = false;
        }
    }
    void carry_out(const Instruction &step, const Run &run, std::unique_lock<std::mutex> &hold) {
        const auto over = [this] { return aborted || stopping || status != DOVETAIL_OK; };
        if (over()) return;
        const int64_t number = device.commands++;
        const char *constants = run.workload.program->constants();
        changed.wait_for(hold, std::chrono::microseconds(device.latency_us), over);
        if (number == device.hang_at) changed.wait(hold, over);
        if (over()) return;
        if (number == device.fail_at) {
            status = DOVETAIL_FAILED;
            failure = "command " + std::to_string(number) + ", of '" + (constants + step.name) + "', failed";
            return;
        }
        hold.unlock();
        execute(step, run.tensors.data(), constants, reinterpret_cast<int32_t *>(device.resolve(run.scratch, 1)));
        hold.lock();
    }

    Device &device;
    std::mutex lock;
    std::condition_variable changed;
    Run *first = nullptr, **last = &first;
    std::string failure;
    bool busy = false, aborted = false, stopping = false;
    int status = DOVETAIL_OK;
    std::thread thread;                 // begins last: it needs the others
};

}  // namespace npu
