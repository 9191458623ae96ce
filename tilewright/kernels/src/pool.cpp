// A pool of threads that wait for work without sleeping at first, for processes without PyTorch.
//
// Layers of a model follow each other within microseconds; a thread that sleeps takes longer than
// that to wake. Where the threads are as many as the processors, each has its own; fewer are not
// pinned, since another process would choose the same processors for its own. The caller is thread
// 0 and is not pinned, since threads it starts later (those of another library, say) would inherit
// its processor.

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels.h"

namespace tilewright {
namespace {

constexpr int kSpins = 4000;  // about 0.1 ms of PAUSE
constexpr int kThreadBits = 10;
static_assert(kMaxThreads < 1 << kThreadBits);

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

std::atomic<bool> spinning{false};  // else a spinning thread would keep another from its work

class Pool {
  public:
    void run(int threads, const Task &task) {
        std::lock_guard<std::mutex> lock(one_call_at_a_time_);
        if (threads > 1) {
            start(threads - 1);
            go_home();
            task_ = &task;
            running_.store(threads - 1, std::memory_order_relaxed);
            const uint32_t number = (round_.load(std::memory_order_relaxed) >> kThreadBits) + 1;
            round_.store(number << kThreadBits | uint32_t(threads), std::memory_order_release);
            round_.notify_all();
        }
        task.run(0, threads);
        for (int spins = 0; threads > 1 && running_.load(std::memory_order_acquire); spins++)
            wait_a_little(spins);
    }

  private:
    void start(int wanted) {
        if (int(workers_) >= wanted) return;
        cpu_set_t allowed;
        std::vector<int> others;  // processors for the workers: all but the caller's
        if (!sched_getaffinity(0, sizeof allowed, &allowed)) {
            if (home_ < 0) home_ = sched_getcpu();
            for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &allowed) && cpu != home_) others.push_back(cpu);
        }
        spinning = wanted <= int(others.size());
        pinned_ = wanted == int(others.size());
        while (int(workers_) < wanted) {
            const uint32_t seen = round_.load();
            std::thread worker([this, seen, index = ++workers_] { work(index, seen); });
            if (pinned_) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(others[workers_ - 1], &one);
                pthread_setaffinity_np(worker.native_handle(), sizeof one, &one);
            }
            worker.detach();
        }
    }

    // The caller to the processor that no worker has: where it has been moved onto a worker's, one
    // of the two would wait for the other. It may be moved again, so this costs little otherwise.
    void go_home() {
        if (!pinned_ || sched_getcpu() == home_) return;
        cpu_set_t mine, one;
        if (sched_getaffinity(0, sizeof mine, &mine) || !CPU_ISSET(home_, &mine)) return;
        CPU_ZERO(&one);
        CPU_SET(home_, &one);
        sched_setaffinity(0, sizeof one, &one);
        sched_setaffinity(0, sizeof mine, &mine);
    }

    void work(int index, uint32_t seen) {
        for (;;) {
            for (int spins = 0; round_.load(std::memory_order_acquire) == seen; spins++) {
                if (spins < kSpins && spinning) relax();
                else round_.wait(seen);
            }
            seen = round_.load(std::memory_order_acquire);
            const int team = int(seen & ((1u << kThreadBits) - 1));
            if (index >= team) continue;
            task_->run(index, team);
            running_.fetch_sub(1, std::memory_order_release);
        }
    }

    // Each on lines of its own: workers that are done look at one while others count in the next.
    static constexpr int kApart = 128;
    std::mutex one_call_at_a_time_;
    // Number of the call, and below it how many threads it takes: a worker that wakes late must
    // not pair the one with the other of a later call.
    alignas(kApart) std::atomic<uint32_t> round_{0};
    const Task *task_ = nullptr;  // read with the round that it belongs to
    alignas(kApart) std::atomic<int> running_{0};
    alignas(kApart) int workers_ = 0;
    int home_ = -1;        // the caller's processor
    bool pinned_ = false;  // the workers, to all others
};

Pool *pool_of_this_process() {
    static Pool *pool = new Pool;  // never deleted: its threads outlive static destructors
    static pid_t owner = getpid();
    if (owner != getpid()) {  // a fork has the memory of its parent, but not its threads
        pool = new Pool;
        owner = getpid();
    }
    return pool;
}

}  // namespace

void wait_a_little(int looks) {
    if (looks < kSpins && spinning) relax();
    else std::this_thread::yield();
}

void spin_if_room(int threads) {
    static const int processors = [] {
        cpu_set_t allowed;
        return sched_getaffinity(0, sizeof allowed, &allowed) ? 1 : CPU_COUNT(&allowed);
    }();
    spinning.store(threads <= processors, std::memory_order_relaxed);
}

void run_in_pool(int threads, const Task &task) {
    if (threads == 1) return task.run(0, 1);
    if (!run_in_openmp(threads, task)) pool_of_this_process()->run(threads, task);
}

}  // namespace tilewright
