// What is done to bf16 weights before they are packed.
//
// Pruning by magnitude is a selection: a histogram of the 2^15 patterns without their sign says
// which one is the limit, and no weight is moved.

#include <vector>

#include "kernels.h"

namespace tilewright {
namespace {

constexpr int kPatterns = 1 << 15;

uint16_t magnitude(uint16_t bits) { return bits & 0x7fff; }

struct CountTask final : Task {
    const uint16_t *weights;
    int64_t length;
    std::vector<std::vector<int64_t>> *found;  // of each thread's share

    void run(int thread, int team) const override {
        std::vector<int64_t> counts(kPatterns);
        for (int64_t i = length * thread / team; i < length * (thread + 1) / team; i++)
            counts[magnitude(weights[i])]++;
        (*found)[thread] = std::move(counts);
    }
};

// Shares must be those of the count, whatever the team: `shares` of them, divided anew.
struct DropTask final : Task {
    uint16_t *weights;
    int64_t length;
    int shares;
    uint16_t limit;
    const int64_t *ties;  // of each share: how many of the limit itself become zero

    void run(int thread, int team) const override {
        for (int share = thread; share < shares; share += team) {
            int64_t left = ties[share];
            for (int64_t i = length * share / shares; i < length * (share + 1) / shares; i++) {
                const uint16_t size = magnitude(weights[i]);
                if (size < limit || (size == limit && left > 0 && left--)) weights[i] = 0;
            }
        }
    }
};

// Nonzeros of every segment of `segment_tiles` tiles of every strip.
struct SegmentTask final : Task {
    const uint8_t *metadata;
    int64_t tile_bytes, strips, tiles, segment_tiles;
    int64_t *counts;

    void run(int thread, int team) const override {
        const int64_t segments = (tiles + segment_tiles - 1) / segment_tiles;
        for (int64_t s = strips * thread / team; s < strips * (thread + 1) / team; s++)
            for (int64_t k = 0; k < segments; k++) {
                const int64_t first = k * segment_tiles;
                const int64_t last = std::min(tiles, first + segment_tiles);
                const uint8_t *from = metadata + (s * tiles + first) * tile_bytes;
                int64_t found = 0;
                for (int64_t i = 0; i < (last - first) * tile_bytes; i += 8)
                    found += __builtin_popcountll(load<uint64_t>(from + i));
                counts[s * segments + k] = found;
            }
    }
};

// Sum of each output's int8 weights.
struct SumTask final : Task {
    const uint8_t *metadata;
    const int8_t *values;
    const int64_t *starts;  // of each strip
    int64_t strips, tiles;
    int32_t *sums;

    void run(int thread, int team) const override {
        for (int64_t s = strips * thread / team; s < strips * (thread + 1) / team; s++) {
            const int8_t *value = values + starts[s];
            int32_t *out = sums + s * kStripOutputs;
            std::fill(out, out + kStripOutputs, 0);
            for (int64_t row = 0; row < tiles * kTileRows; row++) {
                uint64_t bits = ~uint64_t(0);  // of a dense matrix
                if (metadata) bits = load<uint64_t>(metadata + (s * tiles * kTileRows + row) * 8);
                for (; bits; bits &= bits - 1)
                    out[__builtin_ctzll(bits) / 4] += *value++;
            }
        }
    }
};

// Rows to int8 with one scale each, to the nearest, ties to even.
struct QuantiseTask final : Task {
    const uint16_t *weights;
    int64_t rows, length;
    int8_t *quantised;
    float *scales;  // NaN of a row that has a weight that is no number

    void run(int thread, int team) const override {
        for (int64_t row = rows * thread / team; row < rows * (thread + 1) / team; row++) {
            const uint16_t *from = weights + row * length;
            int16_t largest = 0;
            for (int64_t k = 0; k < length; k++)
                largest = std::max(largest, int16_t(magnitude(from[k])));
            const float value = from_bf16(uint16_t(largest));
            scales[row] = std::isfinite(value) ? std::max(value, kSmallestNormal) / 127
                                               : std::numeric_limits<float>::quiet_NaN();
            constexpr float kRound = 12582912.0f;  // adding 1.5 * 2^23 leaves no bit behind the point
            for (int64_t k = 0; k < length; k++) {
                const float whole = from_bf16(from[k]) / scales[row] + kRound;
                quantised[row * length + k] =
                    int8_t(load<int32_t>(&whole) - load<int32_t>(&kRound));
            }
        }
    }
};

}  // namespace
}  // namespace tilewright

using namespace tilewright;

// Sets the `drop` weights of least magnitude to zero; of equal ones, those that come first.
extern "C" void tw_prune(uint16_t *weights, int64_t length, int64_t drop, int32_t threads) {
    std::vector<std::vector<int64_t>> counts(threads);
    CountTask count;
    count.weights = weights, count.length = length, count.found = &counts;
    run_in_pool(threads, count);
    while (counts.size() > 1 && counts.back().empty()) counts.pop_back();  // a smaller team

    int limit = 0;
    for (int64_t here = 0; limit < kPatterns; limit++, drop -= here) {
        here = 0;
        for (const auto &share : counts) here += share[limit];
        if (drop <= here) break;
    }
    std::vector<int64_t> ties;
    for (const auto &share : counts) {
        ties.push_back(std::min(drop, share[limit]));
        drop -= ties.back();
    }
    DropTask task;
    task.weights = weights, task.length = length, task.shares = int(counts.size());
    task.limit = uint16_t(limit), task.ties = ties.data();
    run_in_pool(threads, task);
}

extern "C" void tw_quantise(const uint16_t *weights, int64_t rows, int64_t length,
                            int8_t *quantised, float *scales, int32_t threads) {
    QuantiseTask task;
    task.weights = weights, task.rows = rows, task.length = length;
    task.quantised = quantised, task.scales = scales;
    run_in_pool(threads, task);
}

extern "C" void tw_count_segments(const uint8_t *metadata, int64_t tile_bytes, int64_t strips,
                                  int64_t tiles, int64_t segment_tiles, int64_t *counts,
                                  int32_t threads) {
    SegmentTask task;
    task.metadata = metadata, task.tile_bytes = tile_bytes, task.strips = strips;
    task.tiles = tiles, task.segment_tiles = segment_tiles, task.counts = counts;
    run_in_pool(threads, task);
}

extern "C" void tw_sum_weights(const uint8_t *metadata, const int8_t *values,
                               const int64_t *starts, int64_t strips, int64_t tiles,
                               int32_t *sums, int32_t threads) {
    SumTask task;
    task.metadata = metadata, task.values = values, task.starts = starts;
    task.strips = strips, task.tiles = tiles, task.sums = sums;
    run_in_pool(threads, task);
}
