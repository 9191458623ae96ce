// What a decoder layer does between its linear layers, each in one pass over rows of bf16. Roundings
// are those of the same steps as tensors of bf16 one after the other.

#include <vector>

#include "kernels.h"
#include "loops.h"

namespace tilewright {

namespace avx512 {  // loops_avx512.cpp
void normalise(const uint16_t *, const uint16_t *, uint16_t *, int64_t, float);
void turn(const uint16_t *, const uint16_t *, const uint16_t *, int64_t, uint16_t *);
void add(const uint16_t *, const uint16_t *, uint16_t *, int64_t);
void dots(const uint16_t *, const uint16_t *, int64_t, int64_t, float *);
void mix(const float *, const uint16_t *, int64_t, const uint16_t *, int64_t, uint16_t *);
}  // namespace avx512

namespace {

constexpr int64_t kSmall = 1 << 16;  // elements below which waking other threads takes longer

#if TILEWRIGHT_X86
const bool wide = has(kAvx512);
const auto normalise = wide ? avx512::normalise : loops::normalise;
const auto turn = wide ? avx512::turn : loops::turn;
const auto add = wide ? avx512::add : loops::add;
const auto dots = wide ? avx512::dots : loops::dots;
const auto mix = wide ? avx512::mix : loops::mix;
#else
const auto normalise = loops::normalise;
const auto turn = loops::turn;
const auto add = loops::add;
const auto dots = loops::dots;
const auto mix = loops::mix;
#endif

struct NormTask final : Task {
    const uint16_t *x, *weight;
    uint16_t *y;
    int64_t rows, length;
    float epsilon;

    void run(int thread, int team) const override {
        for (int64_t row = rows * thread / team; row < rows * (thread + 1) / team; row++)
            normalise(x + row * length, weight, y + row * length, length, epsilon);
    }
};

// Queries, keys and values of tokens, side by side in rows of `pitch`: queries turn in place, keys
// turn into their place in the cache, values are copied there; without a cache keys stay too.
struct TurnTask final : Task {
    uint16_t *x;
    const uint16_t *cosines, *sines;  // a row of `dim` for each token, both halves alike
    int64_t rows, tokens, queries, keys, dim, pitch;  // `tokens` of each sequence follow each other
    uint16_t *key_room, *value_room;  // (sequences, keys, room, dim)
    int64_t room, position;

    void run(int thread, int team) const override {
        std::vector<uint16_t> turned(dim);
        for (int64_t row = rows * thread / team; row < rows * (thread + 1) / team; row++) {
            uint16_t *heads = x + row * pitch;
            const uint16_t *cosine = cosines + row * dim, *sine = sines + row * dim;
            const int64_t in_place = key_room ? queries : queries + keys;
            for (int64_t h = 0; h < in_place; h++) {
                turn(heads + h * dim, cosine, sine, dim, turned.data());
                std::memcpy(heads + h * dim, turned.data(), 2 * dim);
            }
            if (!key_room) continue;
            for (int64_t h = 0; h < keys; h++) {
                const int64_t place =
                    ((row / tokens * keys + h) * room + position + row % tokens) * dim;
                const uint16_t *key = heads + (queries + h) * dim, *value = key + keys * dim;
                turn(key, cosine, sine, dim, key_room + place);
                std::memcpy(value_room + place, value, 2 * dim);
            }
        }
    }
};

struct AddTask final : Task {
    const uint16_t *x, *more;
    uint16_t *y;
    int64_t count;

    void run(int thread, int team) const override {
        const int64_t first = count * thread / team, last = count * (thread + 1) / team;
        add(x + first, more + first, y + first, last - first);
    }
};

}  // namespace

void bf16_norm(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t length,
               float epsilon) {
    normalise(x, weight, y, length, epsilon);
}

void bf16_turn(const uint16_t *head, const uint16_t *cosines, const uint16_t *sines, int64_t dim,
               uint16_t *to) {
    turn(head, cosines, sines, dim, to);
}

void bf16_add(const uint16_t *x, const uint16_t *more, uint16_t *y, int64_t count) {
    add(x, more, y, count);
}

void bf16_dots(const uint16_t *query, const uint16_t *keys, int64_t tokens, int64_t dim,
               float *scores) {
    dots(query, keys, tokens, dim, scores);
}

void bf16_mix(const float *weights, const uint16_t *values, int64_t tokens, const uint16_t *last,
              int64_t dim, uint16_t *out) {
    mix(weights, values, tokens, last, dim, out);
}

}  // namespace tilewright

using namespace tilewright;

extern "C" {

void tw_norm(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t rows, int64_t length,
             float epsilon, int32_t threads) {
    NormTask task;
    task.x = x, task.weight = weight, task.y = y, task.rows = rows, task.length = length;
    task.epsilon = epsilon;
    run_in_pool(rows * length < kSmall ? 1 : threads, task);
}

void tw_rotate(uint16_t *x, const uint16_t *cosines, const uint16_t *sines, int64_t rows,
               int64_t tokens, int64_t queries, int64_t keys, int64_t dim, int64_t pitch,
               uint16_t *key_room, uint16_t *value_room, int64_t room, int64_t position,
               int32_t threads) {
    TurnTask task;
    task.x = x, task.cosines = cosines, task.sines = sines, task.rows = rows;
    task.tokens = tokens, task.queries = queries, task.keys = keys, task.dim = dim;
    task.pitch = pitch, task.key_room = key_room, task.value_room = value_room;
    task.room = room, task.position = position;
    run_in_pool(rows * pitch < kSmall ? 1 : threads, task);
}

void tw_add(const uint16_t *x, const uint16_t *more, uint16_t *y, int64_t count, int32_t threads) {
    AddTask task;
    task.x = x, task.more = more, task.y = y, task.count = count;
    run_in_pool(count < kSmall ? 1 : threads, task);
}

}  // extern "C"
