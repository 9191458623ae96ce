// One token of a decoder layer of LLaMA's kind in two calls, with the attention between them, or of
// all layers in one call. What happens and where it is rounded is as layer by layer; only the way
// through Python is left out, which takes as long as the small steps themselves. The attention of
// one call for all is here: scores and sums of values in fp32, the softmax in float64.

#include <atomic>
#include <chrono>
#include <vector>

#include "kernels.h"

using namespace tilewright;

namespace {

// Parts that clocks tell apart.
enum Part { kNorms, kLinear, kPositions, kSums, kAttention };

struct Step {
    Product qkv, out, gate_up, down;  // without x, y and batch
    const int64_t *bounds[4];         // of each, for `threads`
    int32_t orders[4];
    int32_t threads, path;
    int64_t rows, width;  // sequences of one token each, and the features of a hidden state
    const uint16_t *hidden, *first_norm, *second_norm;
    float first_epsilon, second_epsilon;
    const uint16_t *cosines, *sines;
    int64_t queries, keys, dim;          // heads, and the features of one
    uint16_t *key_room, *value_room;     // null: keys and values stay in `joined`
    int64_t room, position;
    uint16_t *joined;                    // queries, keys and values of every sequence
    const uint16_t *mixed;               // what attention made of them
    uint16_t *result;
    double *spent;  // seconds of each part, added up; may be null
    double scale;   // of scores
};

// All layers, one after the other.
struct Token {
    const Step *steps;
    int64_t count;
    const uint16_t *hidden, *cosines, *sines;
    uint16_t *result;
    int64_t position;
    double *spent;
};

class Clock {
  public:
    explicit Clock(double *spent) : spent_(spent) {
        if (spent_) last_ = now();
    }
    void end_of(Part part) {
        if (!spent_) return;
        const double time = now();
        spent_[part] += time - last_;
        last_ = time;
    }

  private:
    static double now() {
        using Seconds = std::chrono::duration<double>;
        return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    double *spent_, last_ = 0;
};

void multiply(const Step &s, const Product &layer, int place, const uint16_t *x, uint16_t *y) {
    Product product = layer;
    product.x = reinterpret_cast<const uint8_t *>(x), product.y = y, product.batch = s.rows;
    const Call call{&product, 1, s.bounds[place], s.threads, s.path, s.orders[place]};
    tw_multiply(&call);
}

// Memory of a call, kept for the next one.
uint16_t *room_for(std::vector<uint16_t> &memory, int64_t count) {
    if (int64_t(memory.size()) < count) memory.resize(count);
    return memory.data();
}

// Every query attends to the tokens of its head by itself: as many parts as there are queries.
struct DenseAttention final : Task {
    const Step &s;
    uint16_t *mixed;
    int64_t tokens;
    mutable std::atomic<int64_t> next{0};

    DenseAttention(const Step &step, uint16_t *out) : s(step), mixed(out), tokens(step.position + 1) {}

    void run(int, int) const override {
        static thread_local std::vector<float> scores;
        static thread_local std::vector<double> powers;
        scores.resize(tokens), powers.resize(tokens);
        int64_t part;
        while ((part = next.fetch_add(1, std::memory_order_relaxed)) < s.rows * s.queries)
            attend(part / s.queries, part % s.queries, scores.data(), powers.data());
    }

  private:
    void attend(int64_t row, int64_t query, float *scores, double *powers) const {
        const int64_t head = query / (s.queries / s.keys);
        const int64_t place = (row * s.keys + head) * s.room * s.dim;
        const uint16_t *q = s.joined + (row * (s.queries + 2 * s.keys) + query) * s.dim;
        bf16_dots(q, s.key_room + place, tokens, s.dim, scores);
        MostKernel largest = portable::largest;
        PowerKernel power = portable::powers;
#if TILEWRIGHT_X86
        if (has(kAvx512)) largest = avx512::largest, power = avx512::powers;
#endif
        double sums[8] = {}, total = 0;
        power(scores, tokens, largest(scores, tokens, scores[0]), s.scale, powers, sums);
        for (double sum : sums) total += sum;
        for (int64_t t = 0; t < tokens; t++) scores[t] = float(powers[t] / total);
        bf16_mix(scores, s.value_room + place, tokens, s.dim, mixed + (row * s.queries + query) * s.dim);
    }
};

}  // namespace

extern "C" {

// Up to the queries, which stay in `joined`, and to keys and values in the cache.
void tw_step_in(const Step *step) {
    static thread_local std::vector<uint16_t> normed;
    const Step &s = *step;
    Clock clock(s.spent);
    uint16_t *x = room_for(normed, s.rows * s.width);
    tw_norm(s.hidden, s.first_norm, x, s.rows, s.width, s.first_epsilon, s.threads);
    clock.end_of(kNorms);
    multiply(s, s.qkv, 0, x, s.joined);
    clock.end_of(kLinear);
    tw_rotate(s.joined, s.cosines, s.sines, s.rows, 1, s.queries, s.keys, s.dim,
              (s.queries + 2 * s.keys) * s.dim, s.key_room, s.value_room, s.room, s.position,
              s.threads);
    clock.end_of(kPositions);
}

// From what attention gave to the hidden states of the next layer.
void tw_step_out(const Step *step) {
    static thread_local std::vector<uint16_t> part, sum, normed, inner;
    const Step &s = *step;
    Clock clock(s.spent);
    const int64_t count = s.rows * s.width;
    uint16_t *y = room_for(part, count), *hidden = room_for(sum, count);
    multiply(s, s.out, 1, s.mixed, y);
    clock.end_of(kLinear);
    tw_add(s.hidden, y, hidden, count, s.threads);
    clock.end_of(kSums);
    uint16_t *x = room_for(normed, count);
    tw_norm(hidden, s.second_norm, x, s.rows, s.width, s.second_epsilon, s.threads);
    clock.end_of(kNorms);
    uint16_t *gated = room_for(inner, s.rows * inputs_of(s.down));
    multiply(s, s.gate_up, 2, x, gated);
    multiply(s, s.down, 3, gated, y);
    clock.end_of(kLinear);
    tw_add(hidden, y, s.result, count, s.threads);
    clock.end_of(kSums);
}

// A token of every sequence through all layers.
void tw_token(const Token *token) {
    static thread_local std::vector<uint16_t> first, second, heads, attended;
    const Step &shape = token->steps[0];
    const int64_t count = shape.rows * shape.width;
    uint16_t *turns[2] = {room_for(first, count), room_for(second, count)};
    const uint16_t *hidden = token->hidden;
    for (int64_t k = 0; k < token->count; k++) {
        Step s = token->steps[k];
        s.hidden = hidden, s.cosines = token->cosines, s.sines = token->sines;
        s.position = token->position, s.spent = token->spent;
        s.result = k + 1 == token->count ? token->result : turns[k % 2];
        s.joined = room_for(heads, s.rows * (s.queries + 2 * s.keys) * s.dim);
        uint16_t *mixed = room_for(attended, s.rows * s.queries * s.dim);
        s.mixed = mixed;
        tw_step_in(&s);
        Clock clock(s.spent);
        run_in_pool(s.threads, DenseAttention(s, mixed));
        clock.end_of(kAttention);
        tw_step_out(&s);
        hidden = s.result;
    }
}

}  // extern "C"
