// Coded weights in Order.VECTOR with AVX-512: looked up in registers and multiplied there, without
// a way through memory to the matrix unit. Needs what avx512.cpp needs.

#include "coded_rows.h"

namespace tilewright::avx512 {
namespace {

constexpr int kRowsAtOnce = 4;

inline __m512 joined(const __m512 *chains) {
    return _mm512_add_ps(_mm512_add_ps(chains[0], chains[1]), _mm512_add_ps(chains[2], chains[3]));
}

// Factors of a group of all outputs. A conversion from fp16 heeds no control register.
template <int Scale>
inline __m512 factors(const uint8_t *scales, int group, __m512 tensor_scale) {
    const auto *bytes = reinterpret_cast<const __m128i *>(scales) + group;
    const auto *words = reinterpret_cast<const __m256i *>(scales);
    if constexpr (Scale == kPower) {  // those of plain scales are the exponent of a normal number
        const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes));
        return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 23));
    } else if constexpr (Scale == kFp16) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(words));
    } else if constexpr (Scale == kBf16Scale) {
        const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(words));
        return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
    } else {  // as fp16, whose exponent has another bias: 2^-8 of the number
        const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(bytes));
        const __m256i size = _mm256_slli_epi16(_mm256_and_si256(codes, _mm256_set1_epi16(0x7f)), 7);
        const __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(codes, 7), 15);
        const __m512 part = _mm512_cvtph_ps(_mm256_or_si256(size, sign));
        return _mm512_mul_ps(_mm512_mul_ps(part, _mm512_set1_ps(256)), tensor_scale);
    }
}

// Rows [top, top + Rows) of x.
template <class Kind, int Rows>
void segment_rows(const Product &p, const Segment &segment, int64_t top, float *out) {
    const uint8_t *x = p.x + top * p.x_pitch + segment.first * kRowBytes;
    typename Kind::Stream stream(*p.coded, segment.start);
    __m512 chains[Rows][kChains], sums[Rows];
    for (int b = 0; b < Rows; b++) {
        sums[b] = _mm512_setzero_ps();
        for (auto &chain : chains[b]) chain = _mm512_setzero_ps();
    }
    const auto add = [&](__m512 sum, int b, int row, __m512i weights) __attribute__((always_inline)) {
        const __m512i pair = _mm512_set1_epi32(load<int32_t>(x + b * p.x_pitch + 4 * row));
        return _mm512_dpbf16_ps(sum, (__m512bh)pair, (__m512bh)weights);
    };
    constexpr int kGroups = groups_of(Kind::kScale), kPairs = kTileRows / 2;
    const __m512 tensor_scale = _mm512_set1_ps(p.coded->tensor_scale);
    for (int64_t t = segment.first; t < segment.last; t++, x += kRowBytes) {
        stream.next();
#pragma GCC unroll 8
        for (int pair = 0; pair < kPairs; pair++) {
            const RowPair weights = stream.rows(pair);
            const int even = 2 * pair % kChains, odd = even + 1;
#pragma GCC unroll 4
            for (int b = 0; b < Rows; b++) {
                chains[b][even] = add(chains[b][even], b, 2 * pair, weights.even);
                chains[b][odd] = add(chains[b][odd], b, 2 * pair + 1, weights.odd);
            }
            if constexpr (kGroups != 0) {
                if ((pair + 1) * kGroups % kPairs) continue;
                const int group = (pair + 1) * kGroups / kPairs - 1;
                const __m512 scale =
                    factors<Kind::kScale>(stream.scales(), group, tensor_scale);
#pragma GCC unroll 4
                for (int b = 0; b < Rows; b++) {
                    sums[b] = _mm512_fmadd_ps(joined(chains[b]), scale, sums[b]);
                    for (auto &chain : chains[b]) chain = _mm512_setzero_ps();
                }
            }
        }
        stream.end_of_tile();
    }
    for (int b = 0; b < Rows; b++)
        _mm512_storeu_ps(out + (top + b) * kStripOutputs, kGroups ? sums[b] : joined(chains[b]));
}

}  // namespace

void coded_vectors(const Product &p, int64_t strip, int64_t segment_index, void *sums) {
    // Denormals as in VDPBF16PS, which does not look at the control register, for the other sums.
    const unsigned control = _mm_getcsr();
    _mm_setcsr(0x9fc0);
    const Segment segment(*p.coded, strip, segment_index);
    float *out = static_cast<float *>(sums);
    with_kind(*p.coded, [&](auto kind) {
        using K = decltype(kind);
        int64_t top = 0;
        for (; top + kRowsAtOnce <= p.batch; top += kRowsAtOnce)
            segment_rows<K, kRowsAtOnce>(p, segment, top, out);
        switch (p.batch - top) {
            case 3: segment_rows<K, 3>(p, segment, top, out); break;
            case 2: segment_rows<K, 2>(p, segment, top, out); break;
            case 1: segment_rows<K, 1>(p, segment, top, out); break;
        }
    });
    _mm_setcsr(control);
}

}  // namespace tilewright::avx512
