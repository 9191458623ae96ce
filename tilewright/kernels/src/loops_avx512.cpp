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

}  // namespace tilewright::avx512
