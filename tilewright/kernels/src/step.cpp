// One token of a decoder layer of LLaMA's kind in two calls, with the attention between them. What
// happens and where it is rounded is as operator by operator; only the way through Python is left
// out, which takes as long as the small steps themselves.

#include "step.h"

using namespace tilewright;

namespace {

void multiply(const Step &s, Place place, const uint16_t *x, uint16_t *y) {
    const Product product = s.product(place, x, y);
    const Call call{&product, 1, s.bounds[place], s.threads, s.path, s.orders[place]};
    tw_multiply(&call);
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
    multiply(s, kQkv, x, s.joined);
    clock.end_of(kLinear);
    tw_rotate(s.joined, s.cosines, s.sines, s.rows, 1, s.queries, s.keys, s.dim, s.heads() * s.dim,
              s.key_room, s.value_room, s.room, s.position, s.threads);
    clock.end_of(kPositions);
}

// From what attention gave to the hidden states of the next layer.
void tw_step_out(const Step *step) {
    static thread_local std::vector<uint16_t> part, sum, normed, inner;
    const Step &s = *step;
    Clock clock(s.spent);
    const int64_t count = s.rows * s.width;
    uint16_t *y = room_for(part, count), *hidden = room_for(sum, count);
    multiply(s, kOut, s.mixed, y);
    clock.end_of(kLinear);
    tw_add(s.hidden, y, hidden, count, s.threads);
    clock.end_of(kSums);
    uint16_t *x = room_for(normed, count);
    tw_norm(hidden, s.second_norm, x, s.rows, s.width, s.second_epsilon, s.threads);
    clock.end_of(kNorms);
    uint16_t *gated = room_for(inner, s.rows * inputs_of(s.layers[kDown]));
    multiply(s, kGateUp, x, gated);
    multiply(s, kDown, gated, y);
    clock.end_of(kLinear);
    tw_add(hidden, y, s.result, count, s.threads);
    clock.end_of(kSums);
}

}  // extern "C"
