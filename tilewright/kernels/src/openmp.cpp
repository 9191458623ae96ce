// The OpenMP runtime that PyTorch has loaded, used as a pool.
//
// Two pools in one process take the processors from each other: PyTorch's threads look for work for
// milliseconds after each of its operators. So where PyTorch is, its threads do our work too. They
// are reached through the one function that GCC's compiled code calls, which the runtimes of LLVM
// and Intel have as well; nothing is compiled against PyTorch or linked with OpenMP.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "kernels.h"

namespace tilewright {
namespace {

struct Runtime {
    void (*parallel)(void (*)(void *), void *, unsigned threads, unsigned flags);
    int (*thread)();
    int (*team)();
    pid_t owner;
};

std::atomic<const Runtime *> runtime{nullptr};

template <class Function>
bool find(void *library, const char *name, Function &function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

int is_torch(dl_phdr_info *info, size_t, void *found) {
    const std::string path = info->dlpi_name;
    if (path.find("libtorch_cpu.") == std::string::npos) return 0;
    *static_cast<std::string *>(found) = path;
    return 1;
}

struct Region {
    const Runtime *openmp;
    const Task *task;
};

void run_one(void *data) {
    const Region *region = static_cast<const Region *>(data);
    starts_after(region);
    region->task->run(region->openmp->thread(), region->openmp->team());
    ends_before(region);
}

}  // namespace

// The symbols are looked up in PyTorch's library and what it depends on, so that another runtime
// in the same process, which would be another pool, is not taken for its own.
bool join_openmp() {
    if (runtime.load(std::memory_order_acquire)) return true;
    std::string path;
    dl_iterate_phdr(is_torch, &path);
    if (path.empty()) return false;
    void *library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return false;
    Runtime found;
    found.owner = getpid();
    if (!find(library, "GOMP_parallel", found.parallel) ||
        !find(library, "omp_get_thread_num", found.thread) ||
        !find(library, "omp_get_num_threads", found.team))
        return false;
    runtime.store(new Runtime(found), std::memory_order_release);  // for the life of the process
    return true;
}

bool run_in_openmp(int threads, const Task &task) {
    const Runtime *openmp = runtime.load(std::memory_order_acquire);
    // A fork has the memory of its parent, but not the threads that the runtime counts on.
    if (!openmp || openmp->owner != getpid()) return false;
    spin_if_room(threads);
    Region region{openmp, &task};
    ends_before(&region);
    openmp->parallel(run_one, &region, unsigned(threads), 0);
    starts_after(&region);
    return true;
}

}  // namespace tilewright
