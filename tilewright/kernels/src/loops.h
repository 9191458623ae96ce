// Plain loops over rows of bf16, for compilers to make vector instructions of. What includes this is
// compiled for one kind of processor, so all of it is that file's own.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tilewright {
namespace {
namespace loops {

constexpr int kLanes = 16;

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
inline void normalise(const uint16_t *__restrict x, const uint16_t *__restrict weight,
               uint16_t *__restrict y, int64_t length, float epsilon) {
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

// One head turned by the angles of its token, to another place.
inline void turn(const uint16_t *__restrict from, const uint16_t *__restrict cosines,
          const uint16_t *__restrict sines, int64_t dim, uint16_t *__restrict to) {
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

// y = x + more.
inline void add(const uint16_t *__restrict x, const uint16_t *__restrict more, uint16_t *__restrict y,
         int64_t count) {
    for (int64_t k = 0; k < count; k++) y[k] = uint16_t(nearest(as_float(x[k]) + as_float(more[k])));
}

// Products of one row with rows of keys. Every 16th input goes to a sum of its own.
inline void dots(const uint16_t *__restrict query, const uint16_t *__restrict keys, int64_t tokens,
          int64_t dim, float *__restrict scores) {
    for (int64_t t = 0; t < tokens; t++) {
        const uint16_t *key = keys + t * dim;
        float sums[kLanes] = {};
        int64_t k = 0;
        for (; k + kLanes <= dim; k += kLanes)
            for (int lane = 0; lane < kLanes; lane++)
                sums[lane] += as_float(query[k + lane]) * as_float(key[k + lane]);
        for (; k < dim; k++) sums[0] += as_float(query[k]) * as_float(key[k]);
        for (int half = kLanes / 2; half; half /= 2)
            for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
        scores[t] = sums[0];
    }
}

// Rows of values by their weights, and one more row of values behind them that lies elsewhere; eight
// blocks of outputs at a time stay in registers.
inline void mix(const float *__restrict weights, const uint16_t *__restrict values, int64_t tokens,
         const uint16_t *__restrict last, int64_t dim, uint16_t *__restrict out) {
    constexpr int kBlock = 128;
    for (int64_t first = 0; first < dim; first += kBlock) {
        const int count = int(dim - first < kBlock ? dim - first : kBlock);
        float sums[kBlock] = {};
        for (int64_t t = 0; t <= tokens; t++) {
            const uint16_t *row = (t < tokens ? values + t * dim : last) + first;
            const float weight = weights[t];
            if (count == kBlock)
                for (int n = 0; n < kBlock; n++) sums[n] += weight * as_float(row[n]);
            else
                for (int n = 0; n < count; n++) sums[n] += weight * as_float(row[n]);
        }
        for (int n = 0; n < count; n++) out[first + n] = uint16_t(nearest(sums[n]));
    }
}

// The largest of bf16 patterns without their signs, which are ordered as numbers are.
inline int16_t largest_magnitude(const int16_t *x, int64_t count) {
    int16_t largest = 0;
    for (int64_t k = 0; k < count; k++) {
        const int16_t size = int16_t(x[k] & 0x7fff);
        largest = size > largest ? size : largest;
    }
    return largest;
}

// bf16 to int8 in steps, to the nearest, ties to even: adding 1.5 * 2^23 leaves no bit behind the
// point.
inline void quantise(const uint16_t *__restrict x, int64_t count, float step,
                     uint8_t *__restrict codes) {
    constexpr float kRound = 12582912.0f;
    constexpr int32_t kRoundBits = 0x4b400000;
    for (int64_t k = 0; k < count; k++) {
        const float steps = as_float(x[k]) / step;
        const float low = steps < -127.0f ? -127.0f : steps;
        const float whole = (127.0f < low ? 127.0f : low) + kRound;
        int32_t bits;
        std::memcpy(&bits, &whole, sizeof bits);
        codes[k] = uint8_t(bits - kRoundBits);
    }
}

}  // namespace loops
}  // namespace
}  // namespace tilewright
