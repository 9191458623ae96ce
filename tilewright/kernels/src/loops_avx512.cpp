// The loops of loops.h for processors with AVX-512.

#include "loops.h"

namespace tilewright::avx512 {

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
    loops::dots(query, keys, tokens, dim, scores);
}

void mix(const float *weights, const uint16_t *values, int64_t tokens, const uint16_t *last,
         int64_t dim, uint16_t *out) {
    loops::mix(weights, values, tokens, last, dim, out);
}

int16_t largest_magnitude(const int16_t *x, int64_t count) {
    return loops::largest_magnitude(x, count);
}

void quantise(const uint16_t *x, int64_t count, float step, uint8_t *codes) {
    loops::quantise(x, count, step, codes);
}

}  // namespace tilewright::avx512
