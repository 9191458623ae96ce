// What a decoder layer does between its linear layers, each in one pass over rows of bf16. Roundings
// are those of the same steps as tensors of bf16 one after the other.

#include "kernels.h"

// Plain loops, compiled for several generations of processors; the best one is taken at run time.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TILEWRIGHT_CLONES __attribute__((target_clones("avx512bw", "avx2", "default")))
#else
#define TILEWRIGHT_CLONES
#endif

namespace tilewright {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kSmall = 1 << 16;  // elements below which waking other threads takes longer

// `to_bf16` without a branch, so that loops over it become vector instructions.
inline __attribute__((always_inline)) uint32_t nearest(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded;
}

inline __attribute__((always_inline)) float as_float(uint32_t bf16) {
    const uint32_t bits = bf16 << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline __attribute__((always_inline)) float rounded(float value) { return as_float(nearest(value)); }

// y = x / rms(x) * weight.
TILEWRIGHT_CLONES void normalise(const uint16_t *x, const uint16_t *weight, uint16_t *y,
                                 int64_t length, float epsilon) {
    float sums[kLanes] = {};
    int64_t k = 0;
    for (; k + kLanes <= length; k += kLanes)
        for (int lane = 0; lane < kLanes; lane++) {
            const float value = as_float(x[k + lane]);
            sums[lane] += value * value;
        }
    for (; k < length; k++) sums[0] += as_float(x[k]) * as_float(x[k]);
    for (int half = kLanes / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
    const float factor = 1 / std::sqrt(sums[0] / float(length) + epsilon);
    for (k = 0; k < length; k++)
        y[k] = uint16_t(nearest(as_float(weight[k]) * rounded(as_float(x[k]) * factor)));
}

// One head turned by the angles of its token; `to` may be `from`.
TILEWRIGHT_CLONES void turn(const uint16_t *from, const uint16_t *cosines, const uint16_t *sines,
                            int64_t dim, uint16_t *to) {
    const int64_t half = dim / 2;
    for (int64_t k = 0; k < half; k++) {
        const float a = as_float(from[k]), b = as_float(from[k + half]);
        const float first = rounded(a * as_float(cosines[k])) - rounded(b * as_float(sines[k]));
        const float second = rounded(b * as_float(cosines[k + half])) +
                             rounded(a * as_float(sines[k + half]));
        to[k] = uint16_t(nearest(first));
        to[k + half] = uint16_t(nearest(second));
    }
}

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
        for (int64_t row = rows * thread / team; row < rows * (thread + 1) / team; row++) {
            uint16_t *heads = x + row * pitch;
            const uint16_t *cosine = cosines + row * dim, *sine = sines + row * dim;
            const int64_t in_place = key_room ? queries : queries + keys;
            for (int64_t h = 0; h < in_place; h++)
                turn(heads + h * dim, cosine, sine, dim, heads + h * dim);
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

}  // namespace
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

}  // extern "C"
