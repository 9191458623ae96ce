// One token of a decoder layer of LLaMA's kind in two calls, with the attention between them. What
// happens and where it is rounded is as layer by layer; only the way through Python is left out,
// which takes as long as the small steps themselves.

#include <chrono>
#include <vector>

#include "kernels.h"

using namespace tilewright;

namespace {

// Parts that clocks tell apart.
enum Part { kNorms, kLinear, kPositions, kSums };

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

}  // extern "C"
