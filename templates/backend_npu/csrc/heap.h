// Addresses, first fit: those of a program's scratch memory, and those of the simulated device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

namespace npu {

class Heap {
public:
    Heap(uint64_t begin, uint64_t bytes) : highest(begin), begin(begin), end(begin + bytes) {}

    uint64_t allocate(uint64_t bytes) {
        const std::lock_guard hold(lock);
        const uint64_t rounded = std::max<uint64_t>(1, (bytes + 63) / 64) * 64;
        uint64_t at = begin;
        for (auto one = taken.begin(); one != taken.end() && one->first - at < rounded; ++one) {
            at = one->second;
        }
        if (end - at < rounded) throw std::bad_alloc();
        taken[at] = at + rounded;
        highest = std::max(highest, at + rounded);
        return at;
    }

    void release(uint64_t at) {
        const std::lock_guard hold(lock);
        taken.erase(at);
    }

    // Whether these bytes lie within one allocation.
    bool contains(uint64_t at, uint64_t bytes) {
        const std::lock_guard hold(lock);
        const auto after = taken.upper_bound(at);
        return after != taken.begin() && std::prev(after)->second >= at + bytes;
    }

    // The end of the highest allocation that there ever was.
    uint64_t high_water() const { return highest; }

private:
    uint64_t highest;
    const uint64_t begin;
    const uint64_t end;
    std::map<uint64_t, uint64_t> taken;     // begin to end
    std::mutex lock;
};

}  // namespace npu
