// Order.TILE for many rows of activations: prompts and large batches.
//
// Two strips are expanded once, as many tiles of them as the second-level cache holds beside the
// activations, and all rows go over them: two strips by two blocks of 16 rows are four independent
// sums for four loads, where one strip by four blocks takes five. Sums of unfinished strips wait in
// memory as fp32, which changes no bit of them.

#include <immintrin.h>

#include <type_traits>
#include <vector>

#include "amx.h"
#include "kernels.h"
#include "prefetch.h"

namespace tilewright::amx {
namespace {

constexpr int64_t kChunk = 128;  // tiles of each strip that are expanded at once

// Memory of a thread that starts on a line.
class Scratch {
  public:
    uint8_t *room(int64_t bytes) {
        if (int64_t(memory_.size()) < bytes + kRowBytes) memory_.resize(bytes + kRowBytes);
        const uintptr_t start = reinterpret_cast<uintptr_t>(memory_.data()) + kRowBytes - 1;
        return reinterpret_cast<uint8_t *>(start & -uintptr_t(kRowBytes));
    }

  private:
    std::vector<uint8_t> memory_;
};

template <int Element>
class Strip {
  public:
    Strip(const Weights &w, int64_t strip)
        : mask_(w.metadata + (w.sparse ? strip * w.tiles * kMaskBytes : 0)),
          values_(w.values + w.strip_starts[strip] * kElementBytes), sparse_(w.sparse),
          mask_lines_(mask_), value_lines_(values_) {}

    // The next tiles, dense: in `buffer`, or where they are.
    const uint8_t *next(int64_t tiles, uint8_t *buffer) {
        if (!sparse_) {
            const uint8_t *here = values_;
            values_ += tiles * kTileBytes;
            return here;
        }
        uint8_t *row = buffer;
        for (int64_t t = 0; t < tiles; t++) {
#pragma GCC unroll 16
            for (int r = 0; r < kTileRows; r++, row += kRowBytes) {
                if constexpr (Element == kBf16) {
                    const uint32_t bits = load<uint32_t>(mask_ + 4 * r);
                    _mm512_store_si512(row, _mm512_maskz_expandloadu_epi16(bits, values_));
                    values_ += 2 * __builtin_popcount(bits);
                } else {
                    const uint64_t bits = load<uint64_t>(mask_ + 8 * r);
                    _mm512_store_si512(row, _mm512_maskz_expandloadu_epi8(bits, values_));
                    values_ += __builtin_popcountll(bits);
                }
            }
            value_lines_.follow(values_);
            mask_lines_.follow(mask_ += kMaskBytes);
        }
        return buffer;
    }

  private:
    static constexpr int kElementBytes = Element == kBf16 ? 2 : 1;
    static constexpr int kMaskBytes = kTileBytes / kElementBytes / 8;
    const uint8_t *mask_, *values_;
    bool sparse_;
    Prefetcher mask_lines_, value_lines_;
};

#define TILEWRIGHT_MULTIPLY(sum, left, right)                                \
    do {                                                                     \
        if constexpr (Element == kBf16) _tile_dpbf16ps(sum, left, right);    \
        else _tile_dpbssd(sum, left, right);                                 \
    } while (0)

// Sums 0 and 1 of one block of rows, 2 and 3 of the next: each with the first and second strip.
template <int Element, bool SecondStrip, bool SecondBlock>
void multiply(const uint8_t *w0, const uint8_t *w1, const uint8_t *x0, const uint8_t *x1,
              int64_t tiles, bool first, uint8_t *sums) {
    if (first) {
        _tile_zero(0);
        if constexpr (SecondStrip) _tile_zero(1);
        if constexpr (SecondBlock) _tile_zero(2);
        if constexpr (SecondStrip && SecondBlock) _tile_zero(3);
    } else {
        _tile_loadd(0, sums, kRowBytes);
        if constexpr (SecondStrip) _tile_loadd(1, sums + kTileBytes, kRowBytes);
        if constexpr (SecondBlock) _tile_loadd(2, sums + 2 * kTileBytes, kRowBytes);
        if constexpr (SecondStrip && SecondBlock)
            _tile_loadd(3, sums + 3 * kTileBytes, kRowBytes);
    }
    for (int64_t t = 0; t < tiles * kTileBytes; t += kTileBytes) {
        _tile_loadd(4, w0 + t, kRowBytes);
        _tile_loadd(6, x0 + t, kRowBytes);
        TILEWRIGHT_MULTIPLY(0, 6, 4);
        if constexpr (SecondStrip) {
            _tile_loadd(5, w1 + t, kRowBytes);
            TILEWRIGHT_MULTIPLY(1, 6, 5);
        }
        if constexpr (SecondBlock) {
            _tile_loadd(7, x1 + t, kRowBytes);
            TILEWRIGHT_MULTIPLY(2, 7, 4);
            if constexpr (SecondStrip) TILEWRIGHT_MULTIPLY(3, 7, 5);
        }
    }
    _tile_stored(0, sums, kRowBytes);
    if constexpr (SecondStrip) _tile_stored(1, sums + kTileBytes, kRowBytes);
    if constexpr (SecondBlock) _tile_stored(2, sums + 2 * kTileBytes, kRowBytes);
    if constexpr (SecondStrip && SecondBlock) _tile_stored(3, sums + 3 * kTileBytes, kRowBytes);
}

template <int Element, bool SecondStrip>
void all_rows(const Product &p, int64_t strip) {
    using Sum = std::conditional_t<Element == kBf16, float, int32_t>;
    static thread_local Scratch tile_memory, sum_memory;
    const Weights &w = *p.weights;
    const int64_t blocks = (p.batch + kTileRows - 1) / kTileRows;
    uint8_t *tiles = tile_memory.room(2 * kChunk * kTileBytes);
    uint8_t *sums = sum_memory.room((blocks + 1) * 2 * kTileBytes);
    Strip<Element> first(w, strip), second(w, SecondStrip ? strip + 1 : strip);
    for (int64_t from = 0; from < w.tiles; from += kChunk) {
        const int64_t count = std::min(kChunk, w.tiles - from);
        const uint8_t *w0 = first.next(count, tiles), *w1 = w0;
        if constexpr (SecondStrip) w1 = second.next(count, tiles + kChunk * kTileBytes);
        asm volatile("" ::: "memory");  // the compiler does not know that tile loads read memory
        for (int64_t block = 0; block < blocks; block += 2) {
            const uint8_t *x0 = p.x + (block * w.tiles + from) * kTileBytes;
            const uint8_t *x1 = x0 + w.tiles * kTileBytes;
            uint8_t *here = sums + block * 2 * kTileBytes;
            if (block + 1 < blocks)
                multiply<Element, SecondStrip, true>(w0, w1, x0, x1, count, !from, here);
            else multiply<Element, SecondStrip, false>(w0, w1, x0, x1, count, !from, here);
        }
        asm volatile("" ::: "memory");
    }
    for (int64_t row = 0; row < p.batch; row++)
        for (int s = 0; s <= SecondStrip; s++)
            put(p, w.outputs, row, strip + s,
                reinterpret_cast<const Sum *>(sums + (row / kTileRows * 2 + s) * kTileBytes +
                                              row % kTileRows * kRowBytes));
}

template <int Element>
void one_or_two(const Product &p, int64_t strip, int64_t strips) {
    if (strips > 1) all_rows<Element, true>(p, strip);
    else all_rows<Element, false>(p, strip);
}

}  // namespace

void many_rows(const Product &p, int64_t strip, int64_t strips) {
    Config config;
    for (int k = 0; k < 8; k++) config.tile(k, kTileRows, kRowBytes);
    _tile_loadconfig(&config);
    if (p.weights->element == kBf16) one_or_two<kBf16>(p, strip, strips);
    else one_or_two<kInt8>(p, strip, strips);
    _tile_release();
}

}  // namespace tilewright::amx
