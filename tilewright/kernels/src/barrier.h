// Where the threads of a team wait for each other without going to sleep.
#pragma once

#include <atomic>

#include "kernels.h"

namespace tilewright {

class Barrier {
  public:
    // Returns when all threads of the team have come. Meanwhile a thread does `spare()` over and
    // over, which says whether there was something to do; it should take less than a microsecond.
    template <class Spare>
    void meet(int team, Spare spare) {
        const uint32_t round = round_.load(std::memory_order_relaxed);  // not over without us
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == team - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            round_.store(round + 1, std::memory_order_release);
            return;
        }
        for (int looks = 0; round_.load(std::memory_order_acquire) == round;)
            if (!spare()) wait_a_little(looks++);
    }

  private:
    alignas(128) std::atomic<int> arrived_{0};
    alignas(128) std::atomic<uint32_t> round_{0};
};

}  // namespace tilewright
