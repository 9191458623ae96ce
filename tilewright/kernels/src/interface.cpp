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

}  // namespace

namespace tilewright {

bool has(Path path) {
    static const bool avx512 = cpu_has_avx512();
    static const bool amx = avx512 && cpu_has_amx();
    return path == kPortable || (path == kAvx512 && avx512) || (path == kAmx && amx);
}

}  // namespace tilewright

namespace {

// One of the three: strips are computed as wholes, by segments that are added up afterwards, or as
// pairs.
struct Kernel {
    StripKernel strip = nullptr;
    SegmentKernel segment = nullptr;
    PairKernel pair = nullptr;
};

// Rows of activations from which on AMX takes strips by pairs, where it is not told: measured. The
// more inputs, the sooner the activations leave the second-level cache between two strips.
std::atomic<int64_t> many_rows{0};

int64_t rows_for_pairs(const Weights &w) {
    const int64_t told = many_rows.load(std::memory_order_relaxed);
    return told ? told : w.tiles > 256 ? 80 : 224;
}

Kernel kernel_of(const Product &p, Path path, Order order) {
#if TILEWRIGHT_X86
    if (p.deca) {
        const bool vectorised =
            p.deca->scale_kind == 0 ||
            (p.deca->scale_kind == 1 && p.deca->group == 32 && p.deca->plain_scales);
        if (path == kAmx && vectorised) return {amx::deca};
    } else if (p.coded) {
        if (order == kVectorOrder && path >= kAvx512) return {nullptr, avx512::coded_vectors};
        const bool vectorised = !p.coded->scaled || p.coded->plain_scales;
        if (order == kTileOrder && path == kAmx && vectorised) return {amx::coded_tiles};
    } else if (order == kVectorOrder) {
        if (path >= kAvx512) return {nullptr, avx512::vector_order};
    } else if (path == kAmx) {
        if (p.batch >= rows_for_pairs(*p.weights))
            return {nullptr, nullptr, amx::many_rows};
        return {amx::tile_order};
    }
#else
    (void)path;
#endif
    if (p.deca) return {portable::deca};
    if (p.coded && order == kTileOrder) return {portable::coded_tiles};
    if (p.coded) return {nullptr, portable::coded_vectors};
    if (order == kTileOrder) return {portable::tile_order};
    return {nullptr, portable::vector_order};
}

// How a kernel wants its activations.
enum class Layout {
    kRows,        // as they come: whole tiles already
    kPaddedRows,  // rows padded to whole tiles
    kShifted,     // the same, int8 moved to uint8 by + 128
    kTiles,       // first operand of a tile multiplication: blocks of 16 rows, tile after tile
    kPairs,       // second operand: the same with pairs of inputs side by side for the 16 rows
};

Layout layout_of(const Product &p, Kernel kernel) {
    const bool int8 = p.weights && p.weights->element == kInt8;
#if TILEWRIGHT_X86
    if (kernel.strip == amx::deca) return Layout::kPairs;
    // Rows far apart in memory share cache sets, so that 16 of them do not stay there together.
    if (kernel.strip == amx::tile_order || kernel.strip == amx::coded_tiles || kernel.pair)
        return Layout::kTiles;
    if (kernel.segment == avx512::vector_order && int8) return Layout::kShifted;
#else
    (void)kernel;
#endif
    const bool whole = inputs_of(p) * (int8 ? 1 : 2) == tiles_of(p) * kRowBytes && !p.scales;
    return whole ? Layout::kRows : Layout::kPaddedRows;
}

// Activations laid out anew, by all threads together.
class Activations {
  public:
    // Room for the new layout; the product will point at it. Returns whether there is work.
    bool start(Product &p, Kernel kernel) {
        layout_ = layout_of(p, kernel);
        if (layout_ == Layout::kRows) return false;
        const bool int8 = p.weights && p.weights->element == kInt8;
        from_ = p.x, from_pitch_ = p.x_pitch, batch_ = p.batch;
        tiles_ = tiles_of(p);
        bytes_ = inputs_of(p) * (int8 ? 1 : 2);
        const bool blocks = layout_ == Layout::kTiles || layout_ == Layout::kPairs;
        const int64_t rows = blocks ? (batch_ + kTileRows - 1) / kTileRows * kTileRows : batch_;
        memory_.resize(rows * tiles_ * kRowBytes + 64);
        const uintptr_t first = reinterpret_cast<uintptr_t>(memory_.data());
        to_ = reinterpret_cast<uint8_t *>((first + 63) & ~uintptr_t(63));
        p.x = to_;
        p.x_pitch = tiles_ * kRowBytes;
        quantised_ = p.scales != nullptr;
        if (quantised_) {
            if (int64_t(steps_.size()) < batch_) steps_.resize(batch_);
            p.x_steps = steps_.data();
        }
        return true;
    }

    // Before `fill`, where activations are to be quantised: what 1 stands for in each row.
    void measure(int thread, int team) const {
        if (layout_ == Layout::kRows || !quantised_) return;
        for (int64_t row = thread; row < batch_; row += team) {
            const int16_t *x = reinterpret_cast<const int16_t *>(from_ + row * from_pitch_);
            int16_t largest = 0;  // bf16 patterns without their sign are ordered as numbers are
            for (int64_t k = 0; k < bytes_; k++)
                largest = std::max(largest, int16_t(x[k] & 0x7fff));
            const float value = from_bf16(uint16_t(largest));
            steps_[row] = std::isfinite(value) ? std::max(value, 1e-30f) / 127
                                               : std::numeric_limits<float>::quiet_NaN();
        }
    }

    bool quantised() const { return layout_ != Layout::kRows && quantised_; }

    // The share of one thread: some tiles of all rows.
    void fill(int thread, int threads) const {
        if (layout_ == Layout::kRows) return;
        const int64_t first = tiles_ * thread / threads, last = tiles_ * (thread + 1) / threads;
        const bool blocks = layout_ == Layout::kTiles || layout_ == Layout::kPairs;
        const int64_t rows = blocks ? (batch_ + kTileRows - 1) / kTileRows * kTileRows : batch_;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = first; t < last; t++) {
                uint8_t piece[kRowBytes] = {};
                const int64_t left = t * kRowBytes;
                const int64_t length = std::min<int64_t>(kRowBytes, bytes_ - left);
                if (row < batch_ && quantised_)
                    quantise(from_ + row * from_pitch_ + 2 * left, length, steps_[row], piece);
                else if (row < batch_)
                    std::memcpy(piece, from_ + row * from_pitch_ + left, length);
                put(row, t, piece);
            }
    }

  private:
    // To the nearest, ties to even: adding 1.5 * 2^23 leaves no bit behind the point.
    static void quantise(const uint8_t *x, int64_t count, float step, uint8_t *piece) {
        constexpr float kRound = 12582912.0f;
        for (int64_t i = 0; i < count; i++) {
            const float steps = from_bf16(load<uint16_t>(x + 2 * i)) / step;
            const float whole = std::min(std::max(steps, -127.0f), 127.0f) + kRound;
            piece[i] = uint8_t(load<int32_t>(&whole) - load<int32_t>(&kRound));
        }
    }

    void put(int64_t row, int64_t t, uint8_t *piece) const {
        uint8_t *tile = to_ + (row / kTileRows * tiles_ + t) * kTileBytes;
        switch (layout_) {
            case Layout::kShifted:
                for (int i = 0; i < kRowBytes; i++) piece[i] ^= 0x80;
                [[fallthrough]];
            case Layout::kPaddedRows:
                std::memcpy(to_ + (row * tiles_ + t) * kRowBytes, piece, kRowBytes);
                break;
            case Layout::kTiles:
                std::memcpy(tile + row % kTileRows * kRowBytes, piece, kRowBytes);
                break;
            case Layout::kPairs:
                for (int r = 0; r < kTileRows; r++)
                    std::memcpy(tile + r * kRowBytes + row % kTileRows * 4, piece + 4 * r, 4);
                break;
            case Layout::kRows: break;
        }
    }

    Layout layout_ = Layout::kRows;
    const uint8_t *from_ = nullptr;
    uint8_t *to_ = nullptr;
    int64_t from_pitch_ = 0, batch_ = 0, tiles_ = 0, bytes_ = 0;
    bool quantised_ = false;
    std::vector<uint8_t> memory_;
    mutable std::vector<float> steps_;
};

// One product, in parts that threads take one by one.
struct Job {
    Product product;
    Kernel kernel;
    Activations activations;
    int64_t segments;    // of a strip; 1 where strips are computed as wholes
    int64_t first_part;  // of all products, in one list
    int64_t first_strip;
    int64_t first_sums;  // by segments: of rows of sums, batch of them for each part
    std::vector<float> halves;  // of a gated product

    int64_t parts() const { return part_of(strips_of(product)); }

    // The part that a strip begins, or is the second one of.
    int64_t part_of(int64_t strip) const {
        return kernel.pair ? (strip + 1) / 2 : strip * segments;
    }
};

// Lines of their own: processors fetch them in pairs.
struct alignas(128) Counter {
    std::atomic<int64_t> value{0};
};

struct alignas(kRowBytes) Sums {
    uint8_t bytes[4 * kStripOutputs];
};

// Parts of all products in one list, cut at `bounds`. A thread takes its own parts one by one,
// then those that others have not come to: a processor that was taken away for a moment, or that
// is slower, holds nobody up.
struct MultiplyTask final : Task {
    std::vector<Job> jobs;
    bool new_layout;        // of activations
    bool quantised;         // some of them
    int64_t count;          // of products
    const int64_t *bounds;  // strips
    int threads;
    mutable std::atomic<int> waiting;
    mutable std::vector<Counter> next;  // of each thread's parts
    mutable std::vector<Counter> done;  // segments of each strip; 0 between calls
    mutable std::vector<Counter> pairs;  // strips of each pair of a gated product, likewise
    mutable std::vector<Sums> sums;

    void prepare(const Product *products, int64_t number, const int64_t *strip_bounds,
                 int thread_count, Path path, Order order) {
        count = number, bounds = strip_bounds, threads = thread_count, waiting = 0;
        new_layout = quantised = false;
        if (int64_t(jobs.size()) < count) jobs.resize(count);
        int64_t parts = 0, strips = 0, rows = 0;
        for (int64_t i = 0; i < count; i++) {
            Job &job = jobs[i];
            job.product = products[i];
            job.kernel = kernel_of(job.product, path, order);
            new_layout |= job.activations.start(job.product, job.kernel);
            quantised |= job.activations.quantised();
            if (job.product.gated) {
                const size_t room = job.product.batch * strips_of(job.product) * kStripOutputs;
                if (job.halves.size() < room) job.halves.resize(room);
                job.product.halves = job.halves.data();
            }
            job.segments = 1;
            if (job.kernel.segment)
                job.segments = job.product.coded ? segments_of(*job.product.coded)
                                                 : segments_of(*job.product.weights);
            job.first_part = parts, job.first_strip = strips, job.first_sums = rows;
            parts += job.parts(), strips += strips_of(job.product);
            if (job.kernel.segment) rows += job.parts() * job.product.batch;
        }
        if (int64_t(sums.size()) < rows) sums.resize(rows);
        if (int64_t(done.size()) < strips) {
            done = std::vector<Counter>(strips);
            pairs = std::vector<Counter>(strips);
        }
        if (int(next.size()) < threads) next = std::vector<Counter>(threads);
        for (int t = 0; t < threads; t++)
            next[t].value.store(part_of(bounds[t]), std::memory_order_relaxed);
    }

    void run(int thread, int team) const override {
        if (quantised) {
            for (int64_t i = 0; i < count; i++) jobs[i].activations.measure(thread, team);
            meet(team);
        }
        if (new_layout) {
            for (int64_t i = 0; i < count; i++) jobs[i].activations.fill(thread, team);
            meet((1 + quantised) * team);
        }
        for (int k = 0; k < threads; k++) {
            const int owner = (thread + k) % threads;
            const int64_t last = part_of(bounds[owner + 1]);
            std::atomic<int64_t> &part = next[owner].value;
            while (part.load(std::memory_order_relaxed) < last) {
                const int64_t taken = part.fetch_add(1, std::memory_order_relaxed);
                if (taken < last) multiply(taken);
            }
        }
    }

  private:
    // Until all threads of the team have come here, `arrivals` of them in all meetings so far.
    void meet(int arrivals) const {
        waiting.fetch_add(1, std::memory_order_acq_rel);
        for (int looks = 0; waiting.load(std::memory_order_acquire) < arrivals; looks++)
            wait_a_little(looks);
    }

    // First part of a strip of the list of all strips.
    int64_t part_of(int64_t strip) const {
        const Job *job = &jobs[0];
        while (job < &jobs[count - 1] && strip >= job[1].first_strip) job++;
        return job->first_part + job->part_of(strip - job->first_strip);
    }

    void multiply(int64_t part) const {
        const Job *job = &jobs[0];
        while (job < &jobs[count - 1] && part >= job[1].first_part) job++;
        part -= job->first_part;
        if (job->kernel.pair) {
            const int64_t first = 2 * part, strips = strips_of(job->product);
            const int64_t pair = std::min<int64_t>(2, strips - first);
            job->kernel.pair(job->product, first, pair);
            for (int64_t k = 0; k < pair; k++) pass_gate(*job, first + k);
            return;
        }
        const int64_t strip = part / job->segments, segment = part % job->segments;
        if (job->kernel.strip) {
            job->kernel.strip(job->product, strip);
            return pass_gate(*job, strip);
        }
        job->kernel.segment(job->product, strip, segment,
                            &sums[job->first_sums + part * job->product.batch]);
        if (job->segments > 1) {
            std::atomic<int64_t> &finished = done[job->first_strip + strip].value;
            if (finished.fetch_add(1, std::memory_order_acq_rel) < job->segments - 1) return;
            finished.store(0, std::memory_order_relaxed);
        }
        if (job->product.coded || job->product.weights->element == kBf16) add_up<float>(*job, strip);
        else add_up<int32_t>(*job, strip);
        pass_gate(*job, strip);
    }

    // The thread that finishes the second strip of a pair computes the outputs of both. Roundings
    // are those of a gate, its activation, a value and their product as tensors of bf16.
    void pass_gate(const Job &job, int64_t strip) const {
        const Product &p = job.product;
        if (!p.gated) return;
        std::atomic<int64_t> &finished = pairs[job.first_strip + strip / 2].value;
        if (finished.fetch_add(1, std::memory_order_acq_rel) == 0) return;
        finished.store(0, std::memory_order_relaxed);
        const int64_t first = strip / 2 * kStripOutputs, pitch = strips_of(p) * kStripOutputs;
        for (int64_t row = 0; row < p.batch; row++) {
            const float *gate = p.halves + row * pitch + 2 * first, *value = gate + kStripOutputs;
            uint16_t *y = static_cast<uint16_t *>(p.y) + row * p.y_pitch + first;
            for (int n = 0; n < kStripOutputs; n++) {
                const float x = from_bf16(to_bf16(gate[n]));
                const float active = from_bf16(to_bf16(x / (1 + std::exp(-x))));
                y[n] = to_bf16(active * from_bf16(to_bf16(value[n])));
            }
        }
    }

    // Segment after segment into y.
    template <class Sum>
    void add_up(const Job &job, int64_t strip) const {
        const int64_t rows = job.product.batch;
        const Sum *first = reinterpret_cast<const Sum *>(
            &sums[job.first_sums + strip * job.segments * rows]);
        for (int64_t row = 0; row < rows; row++) {
            Sum total[kStripOutputs];
            std::memcpy(total, first + row * kStripOutputs, sizeof total);
            for (int64_t segment = 1; segment < job.segments; segment++) {
                const Sum *more = first + (segment * rows + row) * kStripOutputs;
                for (int n = 0; n < kStripOutputs; n++) total[n] = plus(total[n], more[n]);
            }
            put(job.product, outputs_of(job.product), row, strip, total);
        }
    }
};

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
    int32_t *sums;          // first pass: of each output's int8 weights
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
            int32_t in_row = 0, bad = 0, sum = 0;
            for (int64_t k = 0; k < inputs; k++) {
                const T value = weight<T, Float32>(row, k);
                in_row += nonzero(value);
                if constexpr (sizeof(T) == 2) bad |= (value & 0x7f80) == 0x7f80;
                else sum += value;
            }
            found += in_row;
            if (bad && first_bad[thread] < 0) first_bad[thread] = s;
            if (sums) sums[n] = sum;
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
void tw_set_many_rows(int64_t rows) { many_rows = rows; }

void tw_multiply(const Call *call) {
    static thread_local MultiplyTask task;  // keeps its memory
    task.prepare(call->products, call->count, call->bounds, call->threads, Path(call->path),
                 Order(call->order));
    run_in_pool(call->threads, task);
}

// First pass (values null): values and int8 sums of each strip; returns the first strip with a
// weight that is no number, or -1. Second pass: bitmap and values, from `starts` on.
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
