// The loops of loops.h for processors with AVX-512. Those of attention are written out for the usual
// sizes of a head, since compilers keep their sums in memory; they add in the same order.

#include <immintrin.h>

#include "loops.h"

namespace tilewright::avx512 {
namespace {

inline __m512 floats(const uint16_t *bf16) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bf16));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

// Halves are added until one is left.
inline float added_up(__m512 sums) {
    const __m256 eight = _mm256_add_ps(
        _mm512_castps512_ps256(sums),
        _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(sums), 1)));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

template <int Blocks>
void dots_of(const uint16_t *query, const uint16_t *keys, int64_t tokens, float *scores) {
    __m512 q[Blocks];
    for (int b = 0; b < Blocks; b++) q[b] = floats(query + b * loops::kLanes);
    for (int64_t t = 0; t < tokens; t++, keys += Blocks * loops::kLanes) {
        __m512 sums = _mm512_setzero_ps();
#pragma GCC unroll 8
        for (int b = 0; b < Blocks; b++)
            sums = _mm512_add_ps(sums, _mm512_mul_ps(q[b], floats(keys + b * loops::kLanes)));
        scores[t] = added_up(sums);
    }
}

template <int Blocks>
void mix_of(const float *weights, const uint16_t *values, int64_t tokens, const uint16_t *last,
            uint16_t *out) {
    constexpr int kDim = Blocks * loops::kLanes;
    __m512 sums[Blocks];
    for (auto &sum : sums) sum = _mm512_setzero_ps();
    for (int64_t t = 0; t <= tokens; t++) {
        const uint16_t *row = t < tokens ? values + t * kDim : last;
        const __m512 weight = _mm512_set1_ps(weights[t]);
#pragma GCC unroll 8
        for (int b = 0; b < Blocks; b++)
            sums[b] = _mm512_add_ps(sums[b], _mm512_mul_ps(weight, floats(row + b * loops::kLanes)));
    }
    alignas(64) float all[kDim];
    for (int b = 0; b < Blocks; b++) _mm512_store_ps(all + b * loops::kLanes, sums[b]);
    for (int n = 0; n < kDim; n++) out[n] = uint16_t(loops::nearest(all[n]));
}

}  // namespace

void normalise(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t length,
               float epsilon) {
    loops::normalise(x, weight, y, length, epsilon);
}

void turn(const uint16_t *from, const uint16_t *cosines, const uint16_t *sines, int64_t dim,
          uint16_t *to) {
    loops::turn(from, cosines, sines, dim, to);
}

void add(const uint16_t *x, const uint16_t *more, uint16_t *y, int64_t count) {
    loops::add(x, more, y, count);
}

void dots(const uint16_t *query, const uint16_t *keys, int64_t tokens, int64_t dim, float *scores) {
    if (dim == 128) return dots_of<8>(query, keys, tokens, scores);
    if (dim == 64) return dots_of<4>(query, keys, tokens, scores);
    loops::dots(query, keys, tokens, dim, scores);
}

void mix(const float *weights, const uint16_t *values, int64_t tokens, const uint16_t *last,
         int64_t dim, uint16_t *out) {
    if (dim == 128) return mix_of<8>(weights, values, tokens, last, out);
    if (dim == 64) return mix_of<4>(weights, values, tokens, last, out);
    loops::mix(weights, values, tokens, last, dim, out);
}

int16_t largest_magnitude(const int16_t *x, int64_t count) {
    return loops::largest_magnitude(x, count);
}

void quantise(const uint16_t *x, int64_t count, float step, uint8_t *codes) {
    loops::quantise(x, count, step, codes);
}

}  // namespace tilewright::avx512
