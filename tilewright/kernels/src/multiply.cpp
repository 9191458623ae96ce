// Which kernel a product takes, how its activations are laid out, and which thread does what.

#include "multiply.h"

#include "loops.h"

namespace tilewright {

namespace avx512 {  // loops_avx512.cpp
int16_t largest_magnitude(const int16_t *, int64_t);
void quantise(const uint16_t *, int64_t, float, uint8_t *);
}  // namespace avx512

namespace {

#if TILEWRIGHT_X86
const bool wide = has(kAvx512);
const auto largest_magnitude = wide ? avx512::largest_magnitude : loops::largest_magnitude;
const auto quantise = wide ? avx512::quantise : loops::quantise;
#else
const auto largest_magnitude = loops::largest_magnitude;
const auto quantise = loops::quantise;
#endif

// Rows of activations from which on AMX takes strips by pairs, where it is not told: measured. The
// more inputs, the sooner the activations leave the second-level cache between two strips.
std::atomic<int64_t> many_rows{0};

int64_t rows_for_pairs(const Weights &w) {
    const int64_t told = many_rows.load(std::memory_order_relaxed);
    return told ? told : w.tiles > 256 ? 80 : 224;
}

// Rows that stay in the second-level cache while one pair of strips after the other is multiplied
// with them. A pair is expanded anew for each such part of the rows, which takes less time than
// fetching all activations again for each pair where a thread has one or two pairs; with more of
// them it took longer.
std::atomic<int64_t> pair_bytes{512 << 10};

int64_t rows_at_once(const Product &p, int threads) {
    const int64_t bytes = pair_bytes.load(std::memory_order_relaxed);
    const bool few = strips_of(p) <= 4 * threads;
    if (!bytes || !few || p.gated) return p.batch;  // both halves of a gate are counted once
    constexpr int64_t kStep = 2 * kTileRows;
    const int64_t fit = bytes / (tiles_of(p) * kRowBytes) / kStep * kStep;
    return std::min(p.batch, std::max(kStep, fit));
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
        const bool vectorised = p.coded->scale == kUnscaled || (p.coded->scale == kPower && p.coded->plain_scales);
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

}  // namespace

void set_rows_for_pairs(int64_t rows) { many_rows = rows; }
void set_bytes_for_pairs(int64_t bytes) { pair_bytes = bytes; }

// --- activations

bool Activations::start(Product &p, Kernel kernel) {
    layout_ = layout_of(p, kernel);
    from_ = p.x;
    if (layout_ == Layout::kRows) return false;
    const bool int8 = p.weights && p.weights->element == kInt8;
    from_pitch_ = p.x_pitch, batch_ = p.batch;
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

float Activations::step_of(const uint8_t *x, int64_t row) const {
    const int16_t *words = reinterpret_cast<const int16_t *>(x + row * from_pitch_);
    const float value = from_bf16(uint16_t(largest_magnitude(words, bytes_)));
    return std::isfinite(value) ? std::max(value, 1e-30f) / 127
                                : std::numeric_limits<float>::quiet_NaN();
}

void Activations::measure(int thread, int team, const uint8_t *x) const {
    if (!measured_first()) return;
    for (int64_t row = thread; row < batch_; row += team) steps_[row] = step_of(x, row);
}

void Activations::fill(int thread, int team, const uint8_t *x) const {
    if (layout_ == Layout::kRows) return;
    const int64_t first = tiles_ * thread / team, last = tiles_ * (thread + 1) / team;
    const bool blocks = layout_ == Layout::kTiles || layout_ == Layout::kPairs;
    const int64_t rows = blocks ? (batch_ + kTileRows - 1) / kTileRows * kTileRows : batch_;
    for (int64_t row = 0; row < rows; row++) {
        float step = 0;
        if (row < batch_ && quantised_) {
            step = measured_first() ? steps_[row] : step_of(x, row);
            if (!measured_first() && thread == 0) steps_[row] = step;
        }
        for (int64_t t = first; t < last; t++) {
            uint8_t piece[kRowBytes] = {};
            const int64_t left = t * kRowBytes;
            const int64_t length = std::min<int64_t>(kRowBytes, bytes_ - left);
            if (row < batch_ && quantised_)
                quantise(reinterpret_cast<const uint16_t *>(x + row * from_pitch_) + left, length,
                         step, piece);
            else if (row < batch_)
                std::memcpy(piece, x + row * from_pitch_ + left, length);
            put(row, t, piece);
        }
    }
}

void Activations::put(int64_t row, int64_t t, uint8_t *piece) const {
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

// --- a multiplication

void MultiplyTask::prepare(const Product *products, int64_t number, const int64_t *strip_bounds,
                           int thread_count, Path path, Order order) {
    count_ = number, bounds_ = strip_bounds, threads_ = thread_count, waiting_ = 0;
    new_layout_ = measured_ = false;
    if (int64_t(jobs_.size()) < count_) jobs_.resize(count_);
    int64_t parts = 0, strips = 0, rows = 0;
    for (int64_t i = 0; i < count_; i++) {
        Job &job = jobs_[i];
        job.product = products[i];
        job.kernel = kernel_of(job.product, path, order);
        new_layout_ |= job.activations.start(job.product, job.kernel);
        measured_ |= job.activations.measured_first();
        if (job.product.gated) {
            const size_t room = job.product.batch * strips_of(job.product) * kStripOutputs;
            if (job.halves.size() < room) job.halves.resize(room);
            job.product.halves = job.halves.data();
        }
        job.segments = 1;
        job.chunk = count_ == 1 ? rows_at_once(job.product, threads_) : job.product.batch;
        if (job.kernel.segment)
            job.segments = job.product.coded ? segments_of(*job.product.coded)
                                             : segments_of(*job.product.weights);
        job.first_part = parts, job.first_strip = strips, job.first_sums = rows;
        parts += job.parts(), strips += strips_of(job.product);
        if (job.kernel.segment) rows += job.parts() * job.product.batch;
    }
    if (int64_t(sums_.size()) < rows) sums_.resize(rows);
    if (int64_t(done_.size()) < strips) {
        done_ = std::vector<Counter>(strips);
        pairs_ = std::vector<Counter>(strips);
    }
    if (int(next_.size()) < threads_) next_ = std::vector<Counter>(threads_);
    for (int t = 0; t < threads_; t++)
        next_[t].value.store(first_of(t), std::memory_order_relaxed);
}

// Where the list of a thread begins. All pairs with the first rows stand before those with the next:
// a thread's are mostly of the same rows.
int64_t MultiplyTask::first_of(int thread) const {
    if (jobs_[0].chunks() == 1) return part_of(bounds_[thread]);
    return jobs_[0].parts() * thread / threads_;
}

void MultiplyTask::run_with(int thread, int team, const uint8_t *x) const {
    const auto activations_of = [&](int64_t i) {
        return i == 0 && x ? x : jobs_[i].activations.from();
    };
    if (measured_) {
        for (int64_t i = 0; i < count_; i++)
            jobs_[i].activations.measure(thread, team, activations_of(i));
        meet(team);
    }
    if (new_layout_) {
        for (int64_t i = 0; i < count_; i++)
            jobs_[i].activations.fill(thread, team, activations_of(i));
        meet((1 + measured_) * team);
        x = nullptr;  // what was laid out counts now
    }
    for (int k = 0; k < threads_; k++) {
        const int owner = (thread + k) % threads_;
        const int64_t last = first_of(owner + 1);
        std::atomic<int64_t> &part = next_[owner].value;
        while (part.load(std::memory_order_relaxed) < last) {
            const int64_t taken = part.fetch_add(1, std::memory_order_relaxed);
            if (taken < last) multiply(taken, x);
        }
    }
}

// Until all threads of the team have come here, `arrivals` of them in all meetings so far.
void MultiplyTask::meet(int arrivals) const {
    waiting_.fetch_add(1, std::memory_order_acq_rel);
    for (int looks = 0; waiting_.load(std::memory_order_acquire) < arrivals; looks++)
        wait_a_little(looks);
}

void MultiplyTask::first_reads(int thread, int64_t bytes, Range (&ranges)[2]) const {
    ranges[0] = ranges[1] = Range();
    const Product &p = jobs_[0].product;
    if (count_ != 1 || thread >= threads_ || bounds_[thread] == bounds_[thread + 1]) return;
    const int64_t strip = bounds_[thread], end = bounds_[thread + 1];
    const auto range = [&](const uint8_t *base, int64_t first, int64_t last, int64_t most) {
        const char *from = reinterpret_cast<const char *>(base) + first;
        return Range{from, from + std::min(last - first, most)};
    };
    if (p.coded) {
        const int64_t segments = segments_of(*p.coded);
        const int64_t *starts = p.coded->segment_starts;
        ranges[0] = range(p.coded->stream, starts[strip * segments], starts[end * segments], bytes);
    } else if (p.weights) {
        const Weights &w = *p.weights;
        const int64_t size = w.element == kInt8 ? 1 : 2;
        const int64_t masks = w.tiles * kTileBytes / (8 * size), values = w.strip_starts[strip];
        int64_t most = bytes;
        if (w.sparse) {  // as many tiles of the bitmap as of the values
            const int64_t all = (w.strip_starts[end] - values) * size + (end - strip) * masks;
            const int64_t share = bytes * ((end - strip) * masks) / std::max<int64_t>(1, all);
            ranges[1] = range(w.metadata, strip * masks, end * masks, share);
            most -= share;
        }
        ranges[0] = range(w.values, values * size, w.strip_starts[end] * size, most);
    }
}

// First part of a strip of the list of all strips.
int64_t MultiplyTask::part_of(int64_t strip) const {
    const Job *job = &jobs_[0];
    while (job < &jobs_[count_ - 1] && strip >= job[1].first_strip) job++;
    return job->first_part + job->part_of(strip - job->first_strip);
}

void MultiplyTask::multiply(int64_t part, const uint8_t *x) const {
    const Job *job = &jobs_[0];
    while (job < &jobs_[count_ - 1] && part >= job[1].first_part) job++;
    part -= job->first_part;
    Product product = job->product;
    if (x && job == &jobs_[0]) product.x = x;
    if (job->kernel.pair) return multiply_pair(*job, part);
    const int64_t strip = part / job->segments, segment = part % job->segments;
    if (job->kernel.strip) {
        job->kernel.strip(product, strip);
        return pass_gate(*job, strip);
    }
    job->kernel.segment(product, strip, segment, &sums_[job->first_sums + part * product.batch]);
    if (job->segments > 1) {
        std::atomic<int64_t> &finished = done_[job->first_strip + strip].value;
        if (finished.fetch_add(1, std::memory_order_acq_rel) < job->segments - 1) return;
        finished.store(0, std::memory_order_relaxed);
    }
    if (product.coded || product.weights->element == kBf16) add_up<float>(*job, strip);
    else add_up<int32_t>(*job, strip);
    pass_gate(*job, strip);
}

void MultiplyTask::multiply_pair(const Job &job, int64_t part) const {
    const int64_t pairs = job.part_of(strips_of(job.product)), strips = strips_of(job.product);
    const int64_t first = 2 * (part % pairs), top = part / pairs * job.chunk;
    const int64_t pair = std::min<int64_t>(2, strips - first);
    Product product = job.product;
    product.batch = std::min(job.chunk, product.batch - top);
    product.x += top * tiles_of(product) * kRowBytes;  // whole blocks of rows
    const int64_t bytes = product.y_bf16 ? 2 : 4;
    product.y = static_cast<uint8_t *>(product.y) + top * product.y_pitch * bytes;
    if (product.x_steps) product.x_steps += top;
    job.kernel.pair(product, first, pair);
    for (int64_t k = 0; k < pair; k++) pass_gate(job, first + k);
}

// The thread that finishes the second strip of a pair computes the outputs of both. Roundings
// are those of a gate, its activation, a value and their product as tensors of bf16.
void MultiplyTask::pass_gate(const Job &job, int64_t strip) const {
    const Product &p = job.product;
    if (!p.gated) return;
    std::atomic<int64_t> &finished = pairs_[job.first_strip + strip / 2].value;
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
void MultiplyTask::add_up(const Job &job, int64_t strip) const {
    const int64_t rows = job.product.batch;
    const Sum *first =
        reinterpret_cast<const Sum *>(&sums_[job.first_sums + strip * job.segments * rows]);
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

}  // namespace tilewright

using namespace tilewright;

extern "C" void tw_multiply(const Call *call) {
    static thread_local MultiplyTask task;  // keeps its memory
    task.prepare(call->products, call->count, call->bounds, call->threads, Path(call->path),
                 Order(call->order));
    run_in_pool(call->threads, task);
}
