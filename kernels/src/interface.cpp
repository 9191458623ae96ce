// What Python calls. Arguments have been checked there; nothing here throws.

#include <atomic>
#include <vector>

#include "kernels.h"

#if TILEWRIGHT_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace tilewright;

namespace {

#if TILEWRIGHT_X86

bool cpu_has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512bf16") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("popcnt");
}

bool cpu_has_amx() {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    const unsigned bf16 = 1u << 22, tile = 1u << 24, int8 = 1u << 25;
    if ((d & (bf16 | tile | int8)) != (bf16 | tile | int8)) return false;
    // Linux gives a process the tile registers on demand, or refuses: for example where a signal
    // stack is too small to hold them.
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool cpu_has_avx512() { return false; }
bool cpu_has_amx() { return false; }

#endif

bool has(Path path) {
    static const bool avx512 = cpu_has_avx512();
    static const bool amx = avx512 && cpu_has_amx();
    return path == kPortable || (path == kAvx512 && avx512) || (path == kAmx && amx);
}

Kernel kernel_of(const Product &p, Path path, Order order) {
#if TILEWRIGHT_X86
    if (p.deca) {
        const bool vectorised =
            p.deca->scale_kind == 0 ||
            (p.deca->scale_kind == 1 && p.deca->group == 32 && p.deca->plain_scales);
        if (path == kAmx && vectorised) return amx::deca;
    } else if (order == kVectorOrder) {
        if (path >= kAvx512) return avx512::vector_order;
    } else if (path == kAmx) {
        return amx::tile_order;
    }
#else
    (void)path;
#endif
    if (p.deca) return portable::deca;
    return order == kTileOrder ? portable::tile_order : portable::vector_order;
}

// Activations as a kernel wants them; memory of its own only where they are not so already.
class Activations {
  public:
    void prepare(Product &p, Kernel kernel) {
        const int64_t tiles = p.weights ? p.weights->tiles : p.deca->tiles;
        const int64_t inputs = p.weights ? p.weights->inputs : p.deca->inputs;
        const bool int8 = p.weights && p.weights->element == kInt8;
        const int64_t bytes = inputs * (int8 ? 1 : 2);
#if TILEWRIGHT_X86
        if (kernel == amx::deca) return interleave(p, tiles, bytes);
        const bool shift = int8 && kernel == avx512::vector_order;
#else
        (void)kernel;
        const bool shift = false;
#endif
        const int64_t pitch = tiles * kRowBytes;
        if (bytes == pitch && !shift) return;
        uint8_t *rows = room(p.batch * pitch);
        for (int64_t b = 0; b < p.batch; b++) {
            uint8_t *row = rows + b * pitch;
            std::memcpy(row, p.x + b * p.x_pitch, bytes);
            std::memset(row + bytes, 0, pitch - bytes);
            if (shift)
                for (int64_t i = 0; i < bytes; i++) row[i] ^= 0x80;  // + 128
        }
        p.x = rows;
        p.x_pitch = pitch;
    }

  private:
    // Second operand of TDPBF16PS: pairs of inputs side by side for each of 16 rows of x.
    void interleave(Product &p, int64_t tiles, int64_t bytes) {
        const int64_t blocks = (p.batch + kTileRows - 1) / kTileRows;
        uint8_t *to = room(blocks * tiles * kTileBytes);
        std::memset(to, 0, blocks * tiles * kTileBytes);
        for (int64_t b = 0; b < p.batch; b++) {
            const uint8_t *from = p.x + b * p.x_pitch;
            uint8_t *column = to + b / kTileRows * tiles * kTileBytes + b % kTileRows * 4;
            for (int64_t i = 0; i < bytes; i += 4)
                std::memcpy(column + i / 4 * kRowBytes, from + i, std::min<int64_t>(4, bytes - i));
        }
        p.x = to;
    }

    uint8_t *room(int64_t bytes) {
        memory_.resize(bytes + 64);
        const uintptr_t start = reinterpret_cast<uintptr_t>(memory_.data());
        return reinterpret_cast<uint8_t *>((start + 63) & ~uintptr_t(63));
    }

    std::vector<uint8_t> memory_;
};

// Strips of all products in one list, cut at `bounds`.
struct MultiplyTask final : Task {
    const Product *products;
    const Kernel *kernels;
    int64_t count;
    const int64_t *bounds;

    void run(int thread) const override {
        int64_t first = bounds[thread];
        const int64_t last = bounds[thread + 1];
        int64_t before = 0;
        for (int64_t i = 0; i < count && first < last; i++) {
            const int64_t strips = strips_of(products[i]);
            if (first < before + strips) {
                const int64_t end = std::min(last, before + strips);
                kernels[i](products[i], first - before, end - before);
                first = end;
            }
            before += strips;
        }
    }
};

// --- packing

struct PackTask final : Task {
    int32_t element, sparse, float32;
    const uint8_t *weights;
    int64_t pitch, outputs, inputs, strips, tiles;
    uint8_t *metadata;
    int64_t *counts;         // of each strip, first pass
    const int64_t *starts;   // of each strip, second pass
    uint8_t *values;
    int32_t *sums;
    int64_t *first_bad;      // per thread: index of the first weight that is no number, or -1
    int threads;

    template <class T>
    T weight(int64_t output, int64_t input) const {
        const uint8_t *row = weights + output * pitch;
        if constexpr (sizeof(T) == 2)
            if (float32) return T(to_bf16(load<float>(row + 4 * input)));
        return load<T>(row + sizeof(T) * input);
    }

    template <class T>
    void gather(int64_t strip, int64_t tile, T (*rows)[kRowBytes / sizeof(T)]) const {
        constexpr int kGroup = 4 / sizeof(T);
        const int64_t top = strip * kStripOutputs, left = tile * kTileRows * kGroup;
        const int64_t height = std::min<int64_t>(kStripOutputs, outputs - top);
        const int64_t width = std::min<int64_t>(kTileRows * kGroup, inputs - left);
        if (height < kStripOutputs || width < kTileRows * kGroup) std::memset(rows, 0, kTileBytes);
        for (int64_t n = 0; n < height; n++)
            for (int64_t k = 0; k < width; k++)
                rows[k / kGroup][n * kGroup + k % kGroup] = weight<T>(top + n, left + k);
    }

    template <class T>
    static bool nonzero(T value) {
        return sizeof(T) == 2 ? (value & 0x7fff) != 0 : value != 0;
    }

    template <class T, class Mask>
    void strip(int64_t s, int thread) const {
        T tile[kTileRows][kRowBytes / sizeof(T)];
        constexpr int kElements = kRowBytes / sizeof(T);
        int64_t count = 0;
        T *out = values ? reinterpret_cast<T *>(values) + starts[s] : nullptr;
        int32_t totals[kStripOutputs] = {};
        for (int64_t t = 0; t < tiles; t++) {
            gather<T>(s, t, tile);
            for (int r = 0; r < kTileRows; r++) {
                if (values) {
                    T row[kElements];  // whole rows, then a copy: nothing is written past the end
                    int taken = 0;
                    for (int i = 0; i < kElements; i++) {
                        row[taken] = tile[r][i];
                        taken += !sparse || nonzero(tile[r][i]);
                        if (taken == kElements) break;
                    }
                    std::memcpy(out, row, taken * sizeof(T));
                    out += taken;
                    continue;
                }
                Mask mask = 0;
                for (int i = 0; i < kElements; i++) mask |= Mask(nonzero(tile[r][i])) << i;
                count += sparse ? __builtin_popcountll(mask) : kElements;
                if (sparse)
                    std::memcpy(metadata + ((s * tiles + t) * kTileRows + r) * sizeof(Mask), &mask,
                                sizeof mask);
                if constexpr (sizeof(T) == 1)
                    for (int i = 0; i < kElements; i++) totals[i / 4] += tile[r][i];
                if constexpr (sizeof(T) == 2) {
                    unsigned bad = 0;
                    for (int i = 0; i < kElements; i++) bad |= (tile[r][i] & 0x7f80) == 0x7f80;
                    if (bad && first_bad[thread] < 0) first_bad[thread] = s;
                }
            }
        }
        if (values) return;
        counts[s] = count;
        if (sums) std::memcpy(sums + s * kStripOutputs, totals, sizeof totals);
    }

    void run(int thread) const override {
        const int64_t first = strips * thread / threads, last = strips * (thread + 1) / threads;
        for (int64_t s = first; s < last; s++) {
            if (element == kBf16) strip<uint16_t, uint32_t>(s, thread);
            else strip<int8_t, uint64_t>(s, thread);
        }
    }
};

struct ReadTask final : Task {
    const uint8_t *from;
    int64_t bytes;
    int threads;
    mutable std::atomic<int64_t> total{0};

    void run(int thread) const override {
        const int64_t line = 4096, lines = bytes / line;
        const int64_t first = lines * thread / threads * line;
        const int64_t last = lines * (thread + 1) / threads * line;
#if TILEWRIGHT_X86
        if (has(kAvx512)) {
            total += avx512::read_all(from + first, last - first);
            return;
        }
#endif
        total += portable::read_all(from + first, last - first);
    }
};

struct OperationTask final : Task {
    int kind;
    int64_t rounds;
    mutable std::atomic<int64_t> total{0};

    void run(int) const override {
#if TILEWRIGHT_X86
        if (kind < 0) total += amx::operations(rounds);
        else total += avx512::operations(kind, rounds);
#endif
    }
};

}  // namespace

extern "C" {

// Bit k is set where path k can be used.
int32_t tw_paths() {
    int32_t found = 0;
    for (Path path : {kPortable, kAvx512, kAmx}) found |= int32_t(has(path)) << path;
    return found;
}

void tw_multiply(const Product *products, int64_t count, int32_t threads, const int64_t *bounds,
                 int32_t path, int32_t order) {
    static thread_local std::vector<Product> ready;
    static thread_local std::vector<Kernel> kernels;
    static thread_local std::vector<Activations> activations;
    ready.assign(products, products + count);
    kernels.resize(count);
    if (int64_t(activations.size()) < count) activations.resize(count);
    for (int64_t i = 0; i < count; i++) {
        kernels[i] = kernel_of(ready[i], Path(path), Order(order));
        activations[i].prepare(ready[i], kernels[i]);
    }
    MultiplyTask task;
    task.products = ready.data();
    task.kernels = kernels.data();
    task.count = count;
    task.bounds = bounds;
    run_in_pool(threads, task);
}

// First pass (values null): bitmap, nonzeros and int8 sums of each strip; returns the first strip
// with a weight that is no number, or -1. Second pass: the values, from `starts` on.
int64_t tw_pack(int32_t element, int32_t sparse, int32_t float32, const uint8_t *weights,
                int64_t pitch, int64_t outputs, int64_t inputs, int64_t strips, int64_t tiles,
                uint8_t *metadata, int64_t *counts, const int64_t *starts, uint8_t *values,
                int32_t *sums, int32_t threads) {
    std::vector<int64_t> bad(threads, -1);
    PackTask task;
    task.element = element, task.sparse = sparse, task.float32 = float32;
    task.weights = weights, task.pitch = pitch, task.outputs = outputs, task.inputs = inputs;
    task.strips = strips, task.tiles = tiles, task.metadata = metadata, task.counts = counts;
    task.starts = starts, task.values = values, task.sums = sums;
    task.first_bad = bad.data(), task.threads = threads;
    run_in_pool(threads, task);
    for (int64_t strip : bad)
        if (strip >= 0) return strip;
    return -1;
}

// --- measurements: work whose time Python takes

int64_t tw_read(const uint8_t *from, int64_t bytes, int32_t threads) {
    ReadTask task;
    task.from = from, task.bytes = bytes, task.threads = threads;
    run_in_pool(threads, task);
    return task.total;
}

int64_t tw_operations(int32_t kind, int64_t rounds, int32_t threads) {
    OperationTask task;
    task.kind = kind, task.rounds = rounds;
    run_in_pool(threads, task);
    return task.total;
}

}  // extern "C"
