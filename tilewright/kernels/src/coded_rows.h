// Coded weights (golden/sparamx/coded.py) decoded in vector registers: two rows of a tile at a time.
#pragma once

#include <immintrin.h>

#include "kernels.h"
#include "prefetch.h"

namespace tilewright {

struct RowPair {
    __m512i even, odd;  // 32 bf16 each: pairs of inputs of 16 outputs
};

// How VPMULTISHIFTQB moves the second, third and fourth code of every word down. Made by the
// compiler, since a decoder is set up for every segment.
struct NibbleShifts {
    alignas(64) uint8_t of[3][64];
    constexpr NibbleShifts() : of() {
        for (int k = 1; k < 4; k++)
            for (int i = 0; i < 64; i++)
                of[k - 1][i] = uint8_t((i % 8 / 2 * 16 + 4 * k + i % 2 * 8) % 64);
    }
};
inline constexpr NibbleShifts kNibbleShifts;

// Up to 4 bits: four codes in a word, each the index of VPERMW where it is shifted down to. What
// stands above an index does not count, so nothing is masked. VPMULTISHIFTQB shifts on the same
// port as the permutation, and leaves the other one to the dot products.
class NibbleDecoder {
  public:
    explicit NibbleDecoder(const CodedWeights &w) {
        const __m256i once = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(w.table));
        table_ = _mm512_broadcast_i64x4(once);
        for (int k = 0; k < 3; k++) shifts_[k] = _mm512_load_si512(kNibbleShifts.of[k]);
    }

    static constexpr int64_t kBytes = 256;

    void begin(const uint8_t *codes) { codes_ = codes; }

    [[gnu::always_inline]] RowPair rows(int pair) {
        const __m512i words = _mm512_loadu_si512(codes_ + pair / 2 * kRowBytes);
        if (pair % 2 == 0) return {row(words), row(shifted(0, words))};
        return {row(shifted(1, words)), row(shifted(2, words))};
    }

    const uint8_t *end() const { return codes_ + kBytes; }

  private:
    __m512i row(__m512i index) const { return _mm512_permutexvar_epi16(index, table_); }
    __m512i shifted(int k, __m512i words) const {
        return _mm512_multishift_epi64_epi8(shifts_[k], words);
    }

    const uint8_t *codes_ = nullptr;
    __m512i table_, shifts_[3];
};

// The bytes of words: low ones from one register, high ones from the other.
inline RowPair interleaved(__m512i low, __m512i high) {
    return {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
}

// 8 bits: the low byte of a bf16 is part of the code, the high one is looked up by its low 6 bits.
// Code 0 is zero, so that expansion needs no mask afterwards.
template <bool Sparse>
class ByteDecoder {
  public:
    explicit ByteDecoder(const CodedWeights &w) : low_(_mm512_set1_epi8(char(w.low_mask))) {
        // Of codes with the same six bits, that of the last one that stands for something counts.
        __m256i low = _mm256_setzero_si256(), high = low;
        for (int code = 0; code < 256; code += 64) {
            low = high_bytes(low, w.table + code);
            high = high_bytes(high, w.table + code + 32);
        }
        high_ = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }

    void begin(const uint8_t *mask, const uint8_t *codes) { mask_ = mask, codes_ = codes; }

    [[gnu::always_inline]] RowPair rows(int pair) {
        __m512i codes;
        if constexpr (Sparse) {
            const uint64_t bits = load<uint64_t>(mask_ + 8 * pair);
            codes = _mm512_maskz_expandloadu_epi8(bits, codes_);
            codes_ += __builtin_popcountll(bits);
        } else {
            codes = _mm512_loadu_si512(codes_);
            codes_ += 64;
        }
        return interleaved(_mm512_and_si512(codes, low_), _mm512_permutexvar_epi8(codes, high_));
    }

    const uint8_t *end() const { return codes_; }

  private:
    static __m256i high_bytes(__m256i before, const uint16_t *table) {
        const __m512i words = _mm512_loadu_si512(table);
        return _mm512_mask_cvtepi16_epi8(before, _mm512_test_epi16_mask(words, words),
                                         _mm512_srli_epi16(words, 8));
    }

    const uint8_t *mask_ = nullptr, *codes_ = nullptr;
    __m512i low_, high_;
};

// Up to 4 bits without the zeros: codes are spread to bytes in a buffer, two tiles ahead of their
// expansion, which would otherwise wait until they have reached the cache.
class SparseNibbleDecoder {
  public:
    explicit SparseNibbleDecoder(const CodedWeights &w) {
        alignas(64) uint8_t low[64], high[64];
        for (int i = 0; i < 64; i++) low[i] = uint8_t(w.table[i % 16]), high[i] = uint8_t(w.table[i % 16] >> 8);
        low_ = _mm512_load_si512(low), high_ = _mm512_load_si512(high);
    }

    // Spreads a tile; returns where its codes end.
    [[gnu::always_inline]] const uint8_t *spread(const uint8_t *mask, const uint8_t *codes, uint8_t *buffer) const {
        int64_t kept = 0;
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) kept += __builtin_popcountll(load<uint64_t>(mask + 8 * i));
        const int64_t half = (kept + 1) / 2;
        const __m512i nibble = _mm512_set1_epi8(15);
        // A third of a register to spare, so that about as many codes always take the same turns.
        const int64_t turns = (half + 95) / 64;
        for (int64_t i = 0; i < turns; i++)
            _mm512_storeu_si512(buffer + 64 * i,
                                _mm512_and_si512(_mm512_loadu_si512(codes + 64 * i), nibble));
        for (int64_t i = 0; i < turns; i++) {
            const __m512i both = _mm512_loadu_si512(codes + 64 * i);
            _mm512_storeu_si512(buffer + half + 64 * i,
                                _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble));
        }
        return codes + half;
    }

    void begin(const uint8_t *mask, const uint8_t *spread) { mask_ = mask, codes_ = spread; }

    [[gnu::always_inline]] RowPair rows(int pair) {
        const uint64_t bits = load<uint64_t>(mask_ + 8 * pair);
        const __m512i codes = _mm512_maskz_expandloadu_epi8(bits, codes_);
        codes_ += __builtin_popcountll(bits);
        // Code 0 may stand for another value than zero.
        return interleaved(_mm512_maskz_permutexvar_epi8(bits, codes, low_),
                           _mm512_maskz_permutexvar_epi8(bits, codes, high_));
    }

    static constexpr int kBufferBytes = 1024;  // 512 codes and what whole registers write behind

  private:
    const uint8_t *mask_ = nullptr, *codes_ = nullptr;
    __m512i low_, high_;
};

// The records of a segment or strip one after the other, with any decoder.
template <int Bits, bool Sparse, int Scale>
class CodedStream {
  public:
    CodedStream(const CodedWeights &w, int64_t start)
        : decoder_(w), from_(w.stream + start) {
        Prefetcher first_lines(from_);
        if constexpr (kSpread)
            for (unsigned t = 0; t < kSpreadAhead; t++) spread();
    }

    // Go on to the next tile.
    [[gnu::always_inline]] void next() {
        const uint8_t *record = from_, *mask = from_;
        const uint8_t *codes = record + kHead;
        scales_ = record + (Sparse ? kMaskBytes : 0);
        if constexpr (kSpread) {
            decoder_.begin(mask, buffers_[(turn_ - kSpreadAhead) % kBuffers]);
            from_ = ends_[(turn_ - kSpreadAhead) % kBuffers];
            spread();
        } else if constexpr (Bits == 4) {
            decoder_.begin(codes);
            from_ = codes + NibbleDecoder::kBytes;
        } else {
            decoder_.begin(mask, codes);
        }
    }

    [[gnu::always_inline]] RowPair rows(int pair) { return decoder_.rows(pair); }

    // After the last pair of a tile: the lines that are to be read `kAhead` bytes later.
    [[gnu::always_inline]] void end_of_tile() {
        const uint8_t *begin = scales_ - (Sparse ? kMaskBytes : 0);
        if constexpr (Bits == 8) from_ = decoder_.end();
        const char *ahead = reinterpret_cast<const char *>(begin) + Prefetcher::kAhead;
        const int64_t bytes = from_ - begin;
        for (int64_t i = 0; i < bytes; i += 64) Prefetcher::ask(ahead + i);
    }

    const uint8_t *scales() const { return scales_; }

  private:
    static constexpr bool kSpread = Bits == 4 && Sparse;
    static constexpr int64_t kHead = (Sparse ? kMaskBytes : 0) + scale_bytes_of(Scale);
    using Decoder = std::conditional_t<
        Bits == 8, ByteDecoder<Sparse>,
        std::conditional_t<Sparse, SparseNibbleDecoder, NibbleDecoder>>;

    // The tile that comes kSpreadAhead later; behind the last one stand zeros, or another segment.
    [[gnu::always_inline]] void spread() {
        const uint8_t *record = turn_ ? ends_[(turn_ - 1) % kBuffers] : from_;
        const int place = turn_++ % kBuffers;
        ends_[place] = decoder_.spread(record, record + kHead, buffers_[place]);
    }

    static constexpr unsigned kSpreadAhead = 2, kBuffers = 4;
    Decoder decoder_;
    const uint8_t *from_, *scales_ = nullptr;
    unsigned turn_ = 0;
    const uint8_t *ends_[kBuffers];
    alignas(64) uint8_t
        buffers_[kSpread ? kBuffers : 1][kSpread ? SparseNibbleDecoder::kBufferBytes : 1];
};

// Calls `run` with the kind of stream that the weights are, as a value of type Kind.
template <int Bits, bool Sparse, int Scale>
struct Kind {
    using Stream = CodedStream<Bits, Sparse, Scale>;
    static constexpr int kScale = Scale;
};

template <class Run>
void with_kind(const CodedWeights &w, Run run) {
    const int layout = (w.code_bits == 8) * 2 + bool(w.sparse);
    switch (layout * 8 + w.scale) {
        case kUnscaled: return run(Kind<4, false, kUnscaled>());
        case kPower: return run(Kind<4, false, kPower>());
        case kFp16: return run(Kind<4, false, kFp16>());
        case kBf16Scale: return run(Kind<4, false, kBf16Scale>());
        case kE4m3: return run(Kind<4, false, kE4m3>());
        case 8 + kUnscaled: return run(Kind<4, true, kUnscaled>());
        case 8 + kPower: return run(Kind<4, true, kPower>());
        case 16 + kUnscaled: return run(Kind<8, false, kUnscaled>());
        case 16 + kPower: return run(Kind<8, false, kPower>());
        case 24 + kUnscaled: return run(Kind<8, true, kUnscaled>());
        case 24 + kPower: return run(Kind<8, true, kPower>());
    }
}

}  // namespace tilewright
