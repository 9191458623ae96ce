// What a decoder layer does between its linear layers, each in one pass over rows of bf16. Roundings
// are those of the same steps as tensors of bf16 one after the other.

#include "kernels.h"

namespace tilewright {
namespace {

constexpr int kLanes = 16;
constexpr int64_t kSmall = 1 << 16;  // elements below which waking other threads takes longer

float rounded(float value) { return from_bf16(to_bf16(value)); }

// y = x / rms(x) * weight, row by row.
struct NormTask final : Task {
    const uint16_t *x, *weight;
    uint16_t *y;
    int64_t rows, length;
    float epsilon;

    void run(int thread, int team) const override {
        for (int64_t row = rows * thread / team; row < rows * (thread + 1) / team; row++)
            normalise(x + row * length, y + row * length);
    }

    void normalise(const uint16_t *from, uint16_t *to) const {
        float sums[kLanes] = {};
        int64_t k = 0;
        for (; k + kLanes <= length; k += kLanes)
            for (int lane = 0; lane < kLanes; lane++) {
                const float value = from_bf16(from[k + lane]);
                sums[lane] += value * value;
            }
        for (; k < length; k++) sums[0] += from_bf16(from[k]) * from_bf16(from[k]);
        for (int half = kLanes / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
        const float factor = 1 / std::sqrt(sums[0] / float(length) + epsilon);
        for (k = 0; k < length; k++)
            to[k] = to_bf16(from_bf16(weight[k]) * rounded(from_bf16(from[k]) * factor));
    }
};

// Rotary positions in place: the first `heads` heads of every token turn by the token's angles.
struct RotateTask final : Task {
    uint16_t *x;
    const uint16_t *cosines, *sines;  // tokens rows of `dim`, both halves alike
    int64_t tokens, heads, dim, pitch;

    void run(int thread, int team) const override {
        for (int64_t t = tokens * thread / team; t < tokens * (thread + 1) / team; t++)
            for (int64_t head = 0; head < heads; head++)
                turn(x + t * pitch + head * dim, cosines + t * dim, sines + t * dim);
    }

    void turn(uint16_t *head, const uint16_t *cosine, const uint16_t *sine) const {
        const int64_t half = dim / 2;
        for (int64_t k = 0; k < half; k++) {
            const float a = from_bf16(head[k]), b = from_bf16(head[k + half]);
            head[k] = to_bf16(rounded(a * from_bf16(cosine[k])) - rounded(b * from_bf16(sine[k])));
            head[k + half] = to_bf16(rounded(b * from_bf16(cosine[k + half])) +
                                     rounded(a * from_bf16(sine[k + half])));
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

void tw_rotate(uint16_t *x, const uint16_t *cosines, const uint16_t *sines, int64_t tokens,
               int64_t heads, int64_t dim, int64_t pitch, int32_t threads) {
    RotateTask task;
    task.x = x, task.cosines = cosines, task.sines = sines, task.tokens = tokens;
    task.heads = heads, task.dim = dim, task.pitch = pitch;
    run_in_pool(tokens * heads * dim < kSmall ? 1 : threads, task);
}

}  // extern "C"
