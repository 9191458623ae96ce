// Order.VECTOR with AVX-512: nonzeros are expanded in registers and multiplied there.
//
// Needs AVX512F, BW, VL, VBMI, VBMI2, BF16 and VNNI. A strip is one stream of bitmaps and one of
// values; both are prefetched by hand, since the hardware's prefetchers stop at every 4 KiB.

#include <immintrin.h>

#include "kernels.h"
#include "prefetch.h"

namespace tilewright::avx512 {
namespace {

constexpr int kRowsAtOnce = 4;  // rows of x: 4 chains each leave half of the registers free

// Rows of a tile, one after the other. With each row the line is asked for that is to be read
// `kAhead` bytes later: a row takes a line at most, so none is left out, and there is no branch.
template <class T, class Mask, bool Sparse>
class Stream {
  public:
    Stream(const Weights &w, const Segment &segment)
        : mask_(reinterpret_cast<const Mask *>(w.metadata) +
                (Sparse ? (segment.strip * w.tiles + segment.first) * kTileRows : 0)),
          values_(reinterpret_cast<const T *>(w.values) + segment.start),
          mask_lines_(mask_) {
        Prefetcher first_lines(values_);
    }

    __m512i next() {
        Prefetcher::ask(reinterpret_cast<const char *>(values_) + Prefetcher::kAhead);
        if constexpr (!Sparse) {
            const __m512i row = _mm512_loadu_si512(values_);
            values_ += kRowBytes / sizeof(T);
            return row;
        }
        const Mask bits = *mask_++;
        const T *from = values_;
        if constexpr (sizeof(T) == 2) {
            values_ += __builtin_popcount(bits);
            return _mm512_maskz_expandloadu_epi16(bits, from);
        } else {
            values_ += __builtin_popcountll(bits);
            return _mm512_maskz_expandloadu_epi8(bits, from);
        }
    }

    void end_of_tile() {
        if constexpr (Sparse) mask_lines_.follow(mask_);
    }

  private:
    const Mask *mask_;
    const T *values_;
    Prefetcher mask_lines_;
};

template <bool Sparse>
using Bf16Stream = Stream<uint16_t, uint32_t, Sparse>;
template <bool Sparse>
using Int8Stream = Stream<int8_t, uint64_t, Sparse>;

// Rows [top, top + Rows) of x.
template <class Stream, int Rows>
void bf16_rows(const Product &p, const Segment &segment, int64_t top, void *sums_of_all) {
    const uint8_t *x = p.x + top * p.x_pitch + segment.first * kRowBytes;
    Stream stream(*p.weights, segment);
    __m512 sums[Rows][kChains];
    for (auto &row : sums)
        for (auto &sum : row) sum = _mm512_setzero_ps();
    for (int64_t t = segment.first; t < segment.last; t++, x += kRowBytes) {
#pragma GCC unroll 16
        for (int r = 0; r < kTileRows; r++) {
            const __m512bh weights = (__m512bh)stream.next();
#pragma GCC unroll 4
            for (int b = 0; b < Rows; b++) {
                const __m512i pair = _mm512_set1_epi32(load<int32_t>(x + b * p.x_pitch + 4 * r));
                sums[b][r % kChains] =
                    _mm512_dpbf16_ps(sums[b][r % kChains], (__m512bh)pair, weights);
            }
        }
        stream.end_of_tile();
    }
    float *out = static_cast<float *>(sums_of_all) + top * kStripOutputs;
    for (int b = 0; b < Rows; b++)
        _mm512_storeu_ps(out + b * kStripOutputs,
                         _mm512_add_ps(_mm512_add_ps(sums[b][0], sums[b][1]),
                                       _mm512_add_ps(sums[b][2], sums[b][3])));
}

// VPDPBUSD wants unsigned activations: they come moved up by 128, which the sum of each output's
// weights takes back, once per strip.
template <class Stream, int Rows>
void int8_rows(const Product &p, const Segment &segment, int64_t top, void *sums_of_all) {
    const Weights &w = *p.weights;
    const uint8_t *x = p.x + top * p.x_pitch + segment.first * kRowBytes;
    Stream stream(w, segment);
    __m512i sums[Rows][kChains];
    for (auto &row : sums)
        for (auto &sum : row) sum = _mm512_setzero_si512();
    for (int64_t t = segment.first; t < segment.last; t++, x += kRowBytes) {
#pragma GCC unroll 16
        for (int r = 0; r < kTileRows; r++) {
            const __m512i weights = stream.next();
#pragma GCC unroll 4
            for (int b = 0; b < Rows; b++) {
                const __m512i quad = _mm512_set1_epi32(load<int32_t>(x + b * p.x_pitch + 4 * r));
                sums[b][r % kChains] = _mm512_dpbusd_epi32(sums[b][r % kChains], quad, weights);
            }
        }
        stream.end_of_tile();
    }
    __m512i shift = _mm512_setzero_si512();
    if (segment.first == 0)
        shift = _mm512_slli_epi32(
            _mm512_loadu_si512(w.weight_sums + segment.strip * kStripOutputs), 7);
    int32_t *out = static_cast<int32_t *>(sums_of_all) + top * kStripOutputs;
    for (int b = 0; b < Rows; b++) {
        const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(sums[b][0], sums[b][1]),
                                             _mm512_add_epi32(sums[b][2], sums[b][3]));
        _mm512_storeu_si512(out + b * kStripOutputs, _mm512_sub_epi32(sum, shift));
    }
}

template <class Stream, int Rows>
struct Bf16 {
    static constexpr auto run = bf16_rows<Stream, Rows>;
};
template <class Stream, int Rows>
struct Int8 {
    static constexpr auto run = int8_rows<Stream, Rows>;
};

template <template <class, int> class Body, class Stream>
void all_rows(const Product &p, const Segment &segment, void *sums) {
    int64_t top = 0;
    for (; top + kRowsAtOnce <= p.batch; top += kRowsAtOnce)
        Body<Stream, kRowsAtOnce>::run(p, segment, top, sums);
    switch (p.batch - top) {
        case 3: Body<Stream, 3>::run(p, segment, top, sums); break;
        case 2: Body<Stream, 2>::run(p, segment, top, sums); break;
        case 1: Body<Stream, 1>::run(p, segment, top, sums); break;
    }
}

}  // namespace

void vector_order(const Product &p, int64_t strip, int64_t segment, void *sums) {
    // Denormals as in VDPBF16PS, which does not look at the control register, for the last sums.
    const unsigned control = _mm_getcsr();
    _mm_setcsr(0x9fc0);
    const Segment tiles(*p.weights, strip, segment);
    if (p.weights->element == kBf16) {
        if (p.weights->sparse) all_rows<Bf16, Bf16Stream<true>>(p, tiles, sums);
        else all_rows<Bf16, Bf16Stream<false>>(p, tiles, sums);
    } else {
        if (p.weights->sparse) all_rows<Int8, Int8Stream<true>>(p, tiles, sums);
        else all_rows<Int8, Int8Stream<false>>(p, tiles, sums);
    }
    _mm_setcsr(control);
}

// --- softmax: the operations of portable.cpp on eight doubles

namespace {

// No instruction that rounds once where the other path rounds twice.
__m512d times(__m512d a, __m512d b) {
    __m512d product = _mm512_mul_pd(a, b);
    asm("" : "+v"(product));
    return product;
}

__m512d power(__m512d x) {
    x = _mm512_max_pd(x, _mm512_set1_pd(-700.0));
    const __m512d magic = _mm512_set1_pd(0x1.8p52);
    const __m512d moved = _mm512_add_pd(times(x, _mm512_set1_pd(0x1.71547652b82fep0)), magic);
    const __m512d k = _mm512_sub_pd(moved, magic);
    const __m512d r = _mm512_sub_pd(x, times(k, _mm512_set1_pd(0x1.62e42fefa39efp-1)));
    __m512d sum = _mm512_set1_pd(kExpTerms[0]);
#pragma GCC unroll 16
    for (int i = 1; i < kExpCount; i++)
        sum = _mm512_add_pd(times(sum, r), _mm512_set1_pd(kExpTerms[i]));
    const __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(sum),
                                          _mm512_slli_epi64(_mm512_castpd_si512(moved), 52));
    return _mm512_castsi512_pd(bits);
}

}  // namespace

float largest(const float *scores, int64_t count, float most) {
    __m512 found[4];
    for (auto &one : found) one = _mm512_set1_ps(most);
    int64_t i = 0;
    for (; i + 64 <= count; i += 64)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            found[k] = _mm512_max_ps(found[k], _mm512_loadu_ps(scores + i + 16 * k));
    most = _mm512_reduce_max_ps(
        _mm512_max_ps(_mm512_max_ps(found[0], found[1]), _mm512_max_ps(found[2], found[3])));
    for (; i < count; i++) most = std::max(most, scores[i]);
    return most;
}

void powers(const float *scores, int64_t count, float largest, double factor, double *out,
            double *sums) {
    const __m512d most = _mm512_set1_pd(double(largest)), scale = _mm512_set1_pd(factor);
    __m512d total = _mm512_loadu_pd(sums);
#pragma GCC unroll 4
    for (int64_t i = 0; i < count; i += 8) {
        const __mmask8 mask = __mmask8(count - i >= 8 ? 255 : (1 << (count - i)) - 1);
        const __m256 some = _mm256_maskz_loadu_ps(mask, scores + i);
        const __m512d x = times(_mm512_sub_pd(_mm512_cvtps_pd(some), most), scale);
        const __m512d found = power(x);
        _mm512_mask_storeu_pd(out + i, mask, found);
        total = _mm512_mask_add_pd(total, mask, total, found);
    }
    _mm512_storeu_pd(sums, total);
}

void round_powers(const double *powers, int64_t count, double factor, uint16_t *out) {
    const __m512d scale = _mm512_set1_pd(factor);
    const __m512i half = _mm512_set1_epi64((int64_t(1) << 44) - 1), one = _mm512_set1_epi64(1);
    for (int64_t i = 0; i < count; i += 8) {
        const __mmask8 mask = __mmask8(count - i >= 8 ? 255 : (1 << (count - i)) - 1);
        const __m512i bits =
            _mm512_castpd_si512(_mm512_mul_pd(_mm512_maskz_loadu_pd(mask, powers + i), scale));
        const __m512i last = _mm512_and_si512(_mm512_srli_epi64(bits, 45), one);
        const __m512i up = _mm512_add_epi64(_mm512_add_epi64(bits, half), last);
        const __m512d rounded = _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_srli_epi64(up, 45), 45));
        const __mmask8 normal =
            _mm512_cmp_pd_mask(rounded, _mm512_set1_pd(double(kSmallestNormal)), _CMP_GE_OQ);
        const __m256 narrow = _mm512_maskz_cvtpd_ps(normal, rounded);
        const __m128i words = _mm256_cvtepi32_epi16(_mm256_srli_epi32(_mm256_castps_si256(narrow), 16));
        _mm_mask_storeu_epi16(out + i, mask, words);
    }
}

// --- measurements

int64_t read_all(const uint8_t *from, int64_t bytes) {
    __m512i sum[4] = {};
    Prefetcher ahead(from);
    for (int64_t i = 0; i + 256 <= bytes; i += 256) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            sum[j] = _mm512_add_epi64(sum[j], _mm512_loadu_si512(from + i + 64 * j));
        ahead.follow(from + i + 256);
    }
    const __m512i total = _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]),
                                           _mm512_add_epi64(sum[2], sum[3]));
    return _mm512_reduce_add_epi64(total);
}

// One instruction on each of eight registers, twice. The registers are variables, not an array,
// and only they are named as changed: else the compiler would keep them in memory.
#define TILEWRIGHT_REPEAT(...)                                                  \
    for (int64_t i = 0; i < rounds; i++) {                                      \
        for (int half = 0; half < 2; half++) {                                  \
            { __m512i &r = r0; __VA_ARGS__; asm volatile("" : "+v"(r0)); }      \
            { __m512i &r = r1; __VA_ARGS__; asm volatile("" : "+v"(r1)); }      \
            { __m512i &r = r2; __VA_ARGS__; asm volatile("" : "+v"(r2)); }      \
            { __m512i &r = r3; __VA_ARGS__; asm volatile("" : "+v"(r3)); }      \
            { __m512i &r = r4; __VA_ARGS__; asm volatile("" : "+v"(r4)); }      \
            { __m512i &r = r5; __VA_ARGS__; asm volatile("" : "+v"(r5)); }      \
            { __m512i &r = r6; __VA_ARGS__; asm volatile("" : "+v"(r6)); }      \
            { __m512i &r = r7; __VA_ARGS__; asm volatile("" : "+v"(r7)); }      \
        }                                                                       \
    }                                                                           \
    break

// `rounds` rounds of 16 independent instructions of one kind; returns something they computed.
// The kinds are those of tilewright/kernels/roofs.py.
int64_t operations(int kind, int64_t rounds) {
    alignas(64) static thread_local uint8_t memory[128];
    const uint8_t *from = memory;
    __m512i *to = reinterpret_cast<__m512i *>(memory);
    __m512i r0 = _mm512_set1_epi32(1), r1 = r0, r2 = r0, r3 = r0, r4 = r0, r5 = r0, r6 = r0, r7 = r0;
    const __m512i one = _mm512_set1_epi32(1);
    const __mmask32 mask = __mmask32(0x5a5a5a5a ^ rounds);
    const __mmask64 wide = __mmask64(0x5a5a5a5aa5a5a5a5 ^ rounds);
    switch (kind) {
        case 0: TILEWRIGHT_REPEAT(r = _mm512_add_epi32(r, one));
        case 1: TILEWRIGHT_REPEAT(r = _mm512_maskz_expandloadu_epi16(mask, from));
        case 2: TILEWRIGHT_REPEAT(r = _mm512_maskz_expandloadu_epi8(wide, from));
        case 3:
            TILEWRIGHT_REPEAT(r = _mm512_castps_si512(_mm512_dpbf16_ps(
                                  _mm512_castsi512_ps(r), (__m512bh)one, (__m512bh)one)));
        case 4: TILEWRIGHT_REPEAT(r = _mm512_dpbusd_epi32(r, one, one));
        case 5: TILEWRIGHT_REPEAT(asm volatile("vmovdqa64 %1, %0" : "=m"(*to) : "v"(r)));
        case 6: TILEWRIGHT_REPEAT(r = _mm512_permutexvar_epi16(one, r));
        case 7: TILEWRIGHT_REPEAT(r = _mm512_permutex2var_epi16(r, one, one));
        case 8: TILEWRIGHT_REPEAT(r = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(r)));
        case 9:
            TILEWRIGHT_REPEAT(__mmask32 found = _mm512_test_epi16_mask(r, one);
                              asm volatile("" : "+Yk"(found)));
        case 10: TILEWRIGHT_REPEAT(r = _mm512_mask_mov_epi16(r, mask, one));
        case 11: TILEWRIGHT_REPEAT(r = _mm512_permutexvar_epi8(one, r));
        case 12: TILEWRIGHT_REPEAT(r = _mm512_multishift_epi64_epi8(one, r));
        case 13: TILEWRIGHT_REPEAT(asm volatile("vmovdqu64 %1, %0" : "=v"(r) : "m"(*to)));
        case 14: TILEWRIGHT_REPEAT(r = _mm512_unpacklo_epi8(r, one));
        case 15: TILEWRIGHT_REPEAT(r = _mm512_srli_epi16(r, 4));
        case 16:
            // Ones are small numbers that no addition makes normal: zero times zero is as fast.
            r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = _mm512_setzero_si512();
            TILEWRIGHT_REPEAT(r = _mm512_castps_si512(_mm512_fmadd_ps(
                                  _mm512_castsi512_ps(r), _mm512_setzero_ps(),
                                  _mm512_setzero_ps())));
        case 17: TILEWRIGHT_REPEAT(r = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(r)));
        case 18:
            TILEWRIGHT_REPEAT(asm volatile("vpbroadcastw %1, %0" : "=v"(r) : "r"(int(rounds))));
    }
    r0 = _mm512_add_epi64(_mm512_add_epi64(r0, r1), _mm512_add_epi64(r2, r3));
    r4 = _mm512_add_epi64(_mm512_add_epi64(r4, r5), _mm512_add_epi64(r6, r7));
    return _mm512_reduce_add_epi64(_mm512_add_epi64(r0, r4)) + memory[5];
}

}  // namespace tilewright::avx512
