// Attention for one token over a pruned cache of keys and values, and a dense tail behind it.
//
// Three steps, each by all threads: scores of all keys, the softmax of each query, values. Queries
// that share a head of the cache are the rows of a tile. The order of sums is Order.TILE.

#include <atomic>
#include <vector>

#include "kernels.h"

using namespace tilewright;

namespace {

struct Attention {
    const Weights *keys, *values;            // of each head: (tokens, dim) and (dim, tokens)
    const Weights *tail_keys, *tail_values;  // the same, dense, or null
    int64_t heads, rows, dim, tokens, tail_tokens;
    const uint16_t *queries;  // heads * rows of them
    void *out;                // of the same shape, fp32 or bf16
    int32_t out_bf16, threads, path;
};

constexpr int64_t kStripsAtOnce = 32;  // of keys: what a thread takes at a time

int64_t padded(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

// Memory of one call; kept for the next one.
struct Workspace {
    std::vector<uint8_t> queries, weights;  // in tiles
    std::vector<float> scores;
    std::vector<double> powers;
};

struct AttentionTask : Task {
    const Attention &a;
    Workspace &room;
    mutable std::atomic<int64_t> next{0};
    int64_t parts = 0;

    AttentionTask(const Attention &call, Workspace &workspace) : a(call), room(workspace) {}

    void run(int, int) const override {
        int64_t part;
        while ((part = next.fetch_add(1, std::memory_order_relaxed)) < parts) work(part);
    }
    virtual void work(int64_t part) const = 0;

    // Tokens of the cache and of the tail have places of their own, whole strips and whole tiles.
    int64_t tail_place() const { return padded(a.tokens, 32); }
    int64_t pitch() const { return tail_place() + padded(a.tail_tokens, 32); }
    int64_t query_tiles() const { return a.keys[0].tiles; }

    uint8_t *queries_of(int64_t head) const {
        return room.queries.data() + head * query_tiles() * a.rows * kRowBytes;
    }
    float *scores_of(int64_t head) const { return room.scores.data() + head * a.rows * pitch(); }
    uint8_t *weights_of(int64_t head) const { return room.weights.data() + head * a.rows * pitch() * 2; }
    bool has_amx() const { return a.path == kAmx; }
};

struct ScoreTask final : AttentionTask {
    using AttentionTask::AttentionTask;
    int64_t blocks = 0, tail_blocks = 0;  // of each head

    void start() {
        blocks = (a.keys[0].strips + kStripsAtOnce - 1) / kStripsAtOnce;
        if (a.tail_tokens) tail_blocks = (strips_in_tail() + kStripsAtOnce - 1) / kStripsAtOnce;
        parts = a.heads * (blocks + tail_blocks);
    }

    int64_t strips_in_tail() const { return (a.tail_tokens + kStripOutputs - 1) / kStripOutputs; }

    void work(int64_t part) const override {
        const int64_t head = part / (blocks + tail_blocks), block = part % (blocks + tail_blocks);
        const bool in_tail = block >= blocks;
        const Weights &w = in_tail ? a.tail_keys[head] : a.keys[head];
        const int64_t first = (in_tail ? block - blocks : block) * kStripsAtOnce;
        const int64_t all = in_tail ? strips_in_tail() : w.strips;
        const int64_t last = std::min(all, first + kStripsAtOnce);
        float *scores = scores_of(head) + (in_tail ? tail_place() : 0);
        KeyKernel kernel = portable::key_scores;
#if TILEWRIGHT_X86
        if (has_amx()) kernel = amx::key_scores;
#endif
        kernel(w, first, last, queries_of(head), int(a.rows), scores, pitch());
    }
};

struct SoftmaxTask final : AttentionTask {
    using AttentionTask::AttentionTask;

    void work(int64_t part) const override {
        const int64_t head = part / a.rows, row = part % a.rows;
        const float *scores = scores_of(head) + row * pitch();
        const float *tail = scores + tail_place();
        MostKernel largest = portable::largest;
        PowerKernel powers = portable::powers;
        RoundKernel round = portable::round_powers;
#if TILEWRIGHT_X86
        if (has(kAvx512))
            largest = avx512::largest, powers = avx512::powers, round = avx512::round_powers;
#endif
        const float most = largest(tail, a.tail_tokens, largest(scores, a.tokens, scores[0]));
        double *out = room.powers.data() + part * pitch(), sums[8] = {};
        const double factor = 1 / std::sqrt(double(a.dim));
        powers(scores, a.tokens, most, factor, out, sums);
        powers(tail, a.tail_tokens, most, factor, out + tail_place(), sums);
        double total = 0;
        for (double sum : sums) total += sum;
        // Into tiles: 32 tokens of every row side by side; what lies behind the last token is zero.
        const auto put = [&](int64_t first, int64_t count) {
            for (int64_t i = 0; i < count; i += 32) {
                alignas(64) uint16_t words[32] = {};
                round(out + first + i, std::min<int64_t>(32, count - i), 1 / total, words);
                std::memcpy(weights_of(head) + ((first + i) / 32 * a.rows + row) * kRowBytes, words,
                            kRowBytes);
            }
        };
        put(0, a.tokens);
        put(tail_place(), a.tail_tokens);
    }
};

struct ValueTask final : AttentionTask {
    using AttentionTask::AttentionTask;

    void work(int64_t part) const override {
        const int64_t strips = a.values[0].strips, head = part / strips, strip = part % strips;
        alignas(64) float sums[kTileRows][kStripOutputs], more[kTileRows][kStripOutputs];
        ValueKernel kernel = portable::value_sums;
#if TILEWRIGHT_X86
        if (has_amx()) kernel = amx::value_sums;
#endif
        const uint8_t *x = weights_of(head);
        kernel(a.values[head], strip, x, int(a.rows), sums);
        if (a.tail_tokens) {
            const uint8_t *behind = x + tail_place() * a.rows * 2;
            kernel(a.tail_values[head], strip, behind, int(a.rows), more);
        }
        const int64_t first = strip * kStripOutputs;
        const int64_t count = std::min<int64_t>(kStripOutputs, a.dim - first);
        for (int64_t row = 0; row < a.rows; row++)
            for (int64_t n = 0; n < count; n++) {
                const float sum = a.tail_tokens ? sums[row][n] + more[row][n] : sums[row][n];
                const int64_t place = (head * a.rows + row) * a.dim + first + n;
                if (a.out_bf16) static_cast<uint16_t *>(a.out)[place] = to_bf16(sum);
                else static_cast<float *>(a.out)[place] = sum;
            }
    }
};

}  // namespace

extern "C" void tw_attend(const Attention *call) {
    static thread_local Workspace room;  // keeps its memory
    const Attention &a = *call;
    ScoreTask scores(a, room);
    const int64_t query_bytes = a.keys[0].tiles * a.rows * kRowBytes, width = scores.pitch();
    room.queries.assign(a.heads * query_bytes, 0);
    room.scores.resize(a.heads * a.rows * width);
    room.weights.resize(a.heads * a.rows * width * 2);
    room.powers.resize(a.heads * a.rows * width);
    for (int64_t head = 0; head < a.heads; head++)
        for (int64_t row = 0; row < a.rows; row++)
            for (int64_t i = 0; i < a.dim; i++)
                std::memcpy(scores.queries_of(head) + (i / 32 * a.rows + row) * kRowBytes + i % 32 * 2,
                            a.queries + (head * a.rows + row) * a.dim + i, 2);
    scores.start();
    run_in_pool(a.threads, scores);
    SoftmaxTask softmax(a, room);
    softmax.parts = a.heads * a.rows;
    run_in_pool(a.threads, softmax);
    ValueTask values(a, room);
    values.parts = a.heads * a.values[0].strips;
    run_in_pool(a.threads, values);
}
