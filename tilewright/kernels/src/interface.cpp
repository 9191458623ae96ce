// What Python calls. Arguments have been checked there; nothing here throws.

#include <atomic>
#include <vector>

#include "kernels.h"
#include "multiply.h"

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

}  // namespace

namespace tilewright {

bool has(Path path) {
    static const bool avx512 = cpu_has_avx512();
    static const bool amx = avx512 && cpu_has_amx();
    return path == kPortable || (path == kAvx512 && avx512) || (path == kAmx && amx);
}

}  // namespace tilewright

namespace {

// --- packing

// Two passes over the weights: what each strip will take, then bitmap and values.
struct PackTask final : Task {
    int32_t element, sparse, float32;
    const uint8_t *weights;
    int64_t pitch, outputs, inputs, strips, tiles;
    uint8_t *metadata;
    int64_t *counts;        // first pass: values of each strip
    const int64_t *starts;  // second pass: where they begin
    uint8_t *values;
    int64_t *first_bad;     // per thread: the first strip with a weight that is no number, or -1

    template <class T>
    static bool nonzero(T value) {
        return sizeof(T) == 2 ? (value & 0x7fff) != 0 : value != 0;
    }

    template <class T, bool Float32>
    T weight(const uint8_t *row, int64_t input) const {
        if constexpr (Float32) return T(to_bf16(load<float>(row + 4 * input)));
        else return load<T>(row + sizeof(T) * input);
    }

    template <class T, bool Float32>
    void count(int64_t s, int thread) const {
        int64_t found = 0;
        for (int64_t n = s * kStripOutputs; n < std::min(outputs, (s + 1) * kStripOutputs); n++) {
            const uint8_t *row = weights + n * pitch;
            int32_t in_row = 0, bad = 0;
            for (int64_t k = 0; k < inputs; k++) {
                const T value = weight<T, Float32>(row, k);
                in_row += nonzero(value);
                if constexpr (sizeof(T) == 2) bad |= (value & 0x7f80) == 0x7f80;
            }
            found += in_row;
            if (bad && first_bad[thread] < 0) first_bad[thread] = s;
        }
        counts[s] = sparse ? found : tiles * int64_t(kTileBytes / sizeof(T));
    }

    template <class T, bool Float32>
    void gather(int64_t s, int64_t tile, T (*rows)[kRowBytes / sizeof(T)]) const {
        constexpr int kGroup = 4 / sizeof(T);
        const int64_t top = s * kStripOutputs, left = tile * kTileRows * kGroup;
        const int64_t height = std::min<int64_t>(kStripOutputs, outputs - top);
        const int64_t width = std::min<int64_t>(kTileRows * kGroup, inputs - left);
        const bool whole = height == kStripOutputs && width == kTileRows * kGroup;
        if (!whole) std::memset(rows, 0, kTileBytes);
        for (int64_t n = 0; n < height; n++) {
            const uint8_t *row = weights + (top + n) * pitch;
            if (whole && !Float32) {
                for (int r = 0; r < kTileRows; r++)
                    std::memcpy(&rows[r][n * kGroup], row + left * sizeof(T) + 4 * r, 4);
                continue;
            }
            for (int64_t k = 0; k < width; k++)
                rows[k / kGroup][n * kGroup + k % kGroup] = weight<T, Float32>(row, left + k);
        }
    }

    template <class T, class Mask, bool Float32>
    void write(int64_t s) const {
        constexpr int kElements = kRowBytes / sizeof(T);
        T tile[kTileRows][kElements];
        T *out = reinterpret_cast<T *>(values) + starts[s];
        for (int64_t t = 0; t < tiles; t++) {
            gather<T, Float32>(s, t, tile);
            if (!sparse) {
                std::memcpy(out, tile, kTileBytes);
                out += kTileBytes / sizeof(T);
                continue;
            }
            for (int r = 0; r < kTileRows; r++) {
                Mask mask = 0;
                T row[kElements];
                int taken = 0;
                for (int i = 0; i < kElements; i++) {
                    const bool stays = nonzero(tile[r][i]);
                    mask |= Mask(stays) << i;
                    row[taken] = tile[r][i];
                    taken += stays;
                }
                std::memcpy(out, row, taken * sizeof(T));
                out += taken;
                std::memcpy(metadata + ((s * tiles + t) * kTileRows + r) * sizeof(Mask), &mask,
                            sizeof mask);
            }
        }
    }

    template <class T, class Mask, bool Float32>
    void pass(int64_t s, int thread) const {
        if (values) write<T, Mask, Float32>(s);
        else count<T, Float32>(s, thread);
    }

    void run(int thread, int team) const override {
        const int64_t first = strips * thread / team, last = strips * (thread + 1) / team;
        for (int64_t s = first; s < last; s++) {
            if (element == kInt8) pass<int8_t, uint64_t, false>(s, thread);
            else if (float32) pass<uint16_t, uint32_t, true>(s, thread);
            else pass<uint16_t, uint32_t, false>(s, thread);
        }
    }
};

// Pieces that whoever is free takes next, so that no slow moment of one processor counts for all.
struct ReadTask final : Task {
    static constexpr int64_t kPiece = 1 << 20;
    const uint8_t *from;
    int64_t bytes;
    mutable std::atomic<int64_t> next{0}, total{0};

    void run(int, int) const override {
        int64_t sum = 0, first;
        while ((first = next.fetch_add(kPiece)) < bytes) {
            const int64_t length = std::min(kPiece, bytes - first);
#if TILEWRIGHT_X86
            if (has(kAvx512)) {
                sum += avx512::read_all(from + first, length);
                continue;
            }
#endif
            sum += portable::read_all(from + first, length);
        }
        total += sum;
    }
};

struct OperationTask final : Task {
    int kind;
    int64_t rounds;
    int threads;
    mutable std::atomic<int64_t> total{0};

    void run(int thread, int team) const override {
#if TILEWRIGHT_X86
        for (int k = thread; k < threads; k += team) {
            if (kind < 0) total += amx::operations(kind, rounds);
            else total += avx512::operations(kind, rounds);
        }
#else
        (void)thread, (void)team;
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

// From now on work is done by the threads of PyTorch's OpenMP runtime; 0 where there is none.
int32_t tw_join_openmp() { return join_openmp(); }

// For trials and tests: the number of rows from which on AMX takes strips by pairs; 0: as measured.
void tw_set_many_rows(int64_t rows) { set_rows_for_pairs(rows); }

// Likewise: the bytes of activations that it goes through with one pair after the other; 0: all.
void tw_set_pair_bytes(int64_t bytes) { set_bytes_for_pairs(bytes); }

// First pass (values null): values of each strip; returns the first strip with a
// weight that is no number, or -1. Second pass: bitmap and values, from `starts` on.
int64_t tw_pack(int32_t element, int32_t sparse, int32_t float32, const uint8_t *weights,
                int64_t pitch, int64_t outputs, int64_t inputs, int64_t strips, int64_t tiles,
                uint8_t *metadata, int64_t *counts, const int64_t *starts, uint8_t *values,
                int32_t threads) {
    std::vector<int64_t> bad(threads, -1);
    PackTask task;
    task.element = element, task.sparse = sparse, task.float32 = float32;
    task.weights = weights, task.pitch = pitch, task.outputs = outputs, task.inputs = inputs;
    task.strips = strips, task.tiles = tiles, task.metadata = metadata, task.counts = counts;
    task.starts = starts, task.values = values;
    task.first_bad = bad.data();
    run_in_pool(threads, task);
    for (int64_t strip : bad)
        if (strip >= 0) return strip;
    return -1;
}

// --- measurements: work whose time Python takes

int64_t tw_read(const uint8_t *from, int64_t bytes, int32_t threads) {
    ReadTask task;
    task.from = from, task.bytes = bytes;
    run_in_pool(threads, task);
    return task.total;
}

// Kinds from 0 on are vector instructions (avx512.cpp), those below 0 of tiles (amx.cpp).
int64_t tw_operations(int32_t kind, int64_t rounds, int32_t threads) {
    OperationTask task;
    task.kind = kind, task.rounds = rounds, task.threads = threads;
    run_in_pool(threads, task);
    return task.total;
}

}  // extern "C"
