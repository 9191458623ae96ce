// Order.TILE with AMX: tiles are expanded into a small buffer with AVX-512, loaded from there and
// multiplied. Needs AMX tile, bf16 and int8, and what avx512.cpp needs.

#include <immintrin.h>

#include <vector>

#include "amx.h"
#include "coded_rows.h"
#include "kernels.h"
#include "prefetch.h"

namespace tilewright::amx {
namespace {

// Registers: 0..3 sums of up to 64 rows of x, 4 weights, 5 and 6 full tiles of x, 7 its last one.
constexpr int kMaxBlocks = 4;
constexpr int kRowsAtOnce = kMaxBlocks * kTileRows;
// Tiles are expanded this far ahead of their multiplication: the load of a tile whose rows are still
// on their way to the cache waits for them, and with it all that follows.
constexpr int kAhead = 2;
constexpr int kBuffers = 4;  // a power of two above kAhead

// Tile numbers are part of the instruction and must stand in the source as digits.
#define TILEWRIGHT_FOR_BLOCK(m, action) \
    switch (m) {                        \
        case 0: action(0); break;       \
        case 1: action(1); break;       \
        case 2: action(2); break;       \
        case 3: action(3); break;       \
    }
#define TILEWRIGHT_ZERO(m) _tile_zero(m)
#define TILEWRIGHT_STORE(m) _tile_stored(m, out, kRowBytes)

#define TILEWRIGHT_MULTIPLY(sum, left, right)                                \
    do {                                                                     \
        if constexpr (Element == kBf16) _tile_dpbf16ps(sum, left, right);    \
        else _tile_dpbssd(sum, left, right);                                 \
    } while (0)

// One tile of weights (register 4) with all tiles of x at this depth, `block_bytes` apart. After
// each multiplication, while the matrix unit is busy, a share of another tile is expanded.
template <int Element, int Blocks, class Tiles>
inline void multiply_all(const uint8_t *x, int64_t block_bytes, Tiles &tiles) {
    const auto block = [&](int m) { return x + m * block_bytes; };
    constexpr int pitch = kRowBytes;
    if constexpr (Blocks >= 2) {
        _tile_loadd(5, block(0), pitch);
        TILEWRIGHT_MULTIPLY(0, 5, 4);
        tiles.expand(0, kTileRows / Blocks);
    }
    if constexpr (Blocks >= 3) {
        _tile_loadd(6, block(1), pitch);
        TILEWRIGHT_MULTIPLY(1, 6, 4);
        tiles.expand(kTileRows / Blocks, kTileRows * 2 / Blocks);
    }
    if constexpr (Blocks >= 4) {
        _tile_loadd(5, block(2), pitch);
        TILEWRIGHT_MULTIPLY(2, 5, 4);
        tiles.expand(kTileRows * 2 / Blocks, kTileRows * 3 / Blocks);
    }
    _tile_loadd(7, block(Blocks - 1), pitch);
    if constexpr (Blocks == 1) TILEWRIGHT_MULTIPLY(0, 7, 4);
    if constexpr (Blocks == 2) TILEWRIGHT_MULTIPLY(1, 7, 4);
    if constexpr (Blocks == 3) TILEWRIGHT_MULTIPLY(2, 7, 4);
    if constexpr (Blocks == 4) TILEWRIGHT_MULTIPLY(3, 7, 4);
    tiles.expand(kTileRows * (Blocks - 1) / Blocks, kTileRows);
}

inline void store_sums(int m, void *out) { TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_STORE) }

// The compiler does not know that a tile load reads memory: what was written before stays before.
inline void written() { asm volatile("" ::: "memory"); }

using Buffers = uint8_t[kBuffers][kTileBytes];

// The tiles of a strip one after the other, dense. `Source` expands rows of the next one.
template <class Source>
class Ahead {
  public:
    Ahead(Source source, int64_t tiles, Buffers &buffers)
        : source_(source), left_(tiles), buffers_(buffers) {
        for (int t = 0; t < kAhead; t++) expand(0, kTileRows);
    }

    // The tile to multiply now; `expand` works on the one that comes `kAhead` later.
    const uint8_t *next() { return buffers_[given_++ % kBuffers]; }

    [[gnu::always_inline]] void expand(int first, int last) {  // constants, to be unrolled
        if (left_ > 0) source_.expand(first, last, buffers_[expanded_ % kBuffers]);
        written();
        if (last == kTileRows) left_--, expanded_++;
    }

  private:
    Source source_;
    int64_t left_;
    Buffers &buffers_;
    unsigned expanded_ = 0, given_ = 0;
};

template <int Element>
class SparseSource {
  public:
    SparseSource(const Weights &w, int64_t strip)
        : mask_(w.metadata + strip * w.tiles * kMaskBytes),
          values_(w.values + w.strip_starts[strip] * kElementBytes),
          mask_lines_(mask_), value_lines_(values_) {}

    [[gnu::always_inline]] void expand(int first, int last, uint8_t *tile) {
#pragma GCC unroll 16
        for (int r = first; r < last; r++) {
            __m512i row;
            if constexpr (Element == kBf16) {
                const uint32_t bits = load<uint32_t>(mask_ + 4 * r);
                row = _mm512_maskz_expandloadu_epi16(bits, values_);
                values_ += 2 * __builtin_popcount(bits);
            } else {
                const uint64_t bits = load<uint64_t>(mask_ + 8 * r);
                row = _mm512_maskz_expandloadu_epi8(bits, values_);
                values_ += __builtin_popcountll(bits);
            }
            _mm512_store_si512(tile + r * kRowBytes, row);
        }
        value_lines_.follow(values_);
        if (last == kTileRows) mask_lines_.follow(mask_ += kMaskBytes);
    }

  private:
    static constexpr int kElementBytes = Element == kBf16 ? 2 : 1;
    static constexpr int kMaskBytes = kTileBytes / kElementBytes / 8;
    const uint8_t *mask_, *values_;
    Prefetcher mask_lines_, value_lines_;
};

// Dense weights are tiles already.
template <int Element>
class DenseTiles {
  public:
    DenseTiles(const Weights &w, int64_t strip)
        : values_(w.values + w.strip_starts[strip] * (Element == kBf16 ? 2 : 1)), lines_(values_) {}

    const uint8_t *next() {
        const uint8_t *tile = values_;
        values_ += kTileBytes;
        lines_.follow(values_);
        return tile;
    }

    void expand(int, int) {}

  private:
    const uint8_t *values_;
    Prefetcher lines_;
};

template <int Element, bool Sparse>
auto tiles_of(const Weights &w, int64_t strip, Buffers &buffers) {
    if constexpr (Sparse) return Ahead(SparseSource<Element>(w, strip), w.tiles, buffers);
    else return DenseTiles<Element>(w, strip);
}

template <int Element, bool Sparse, int Blocks>
void strip_sums(const Weights &w, int64_t strip, const uint8_t *x) {
    alignas(64) Buffers buffers;
    auto tiles = tiles_of<Element, Sparse>(w, strip, buffers);
    for (int m = 0; m < Blocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
    for (int64_t t = 0; t < w.tiles; t++, x += kTileBytes) {
        _tile_loadd(4, tiles.next(), kRowBytes);
        multiply_all<Element, Blocks>(x, w.tiles * kTileBytes, tiles);
    }
}

// Up to 64 rows of x at a time: `sums_of(blocks, x)` leaves their sums in registers 0 to 3.
template <class Sum, class SumsOf>
void by_blocks(const Product &p, int64_t tiles, int64_t outputs, int64_t strip, SumsOf sums_of) {
    alignas(64) Sum sums[kTileRows][kStripOutputs];
    for (int64_t top = 0; top < p.batch; top += kRowsAtOnce) {
        const int rows = int(std::min<int64_t>(kRowsAtOnce, p.batch - top));
        const int blocks = (rows + kTileRows - 1) / kTileRows;
        const int last_rows = rows - (blocks - 1) * kTileRows;
        Config config;
        for (int m = 0; m < blocks; m++)
            config.tile(m, m == blocks - 1 ? last_rows : kTileRows, kRowBytes);
        for (int full : {4, 5, 6}) config.tile(full, kTileRows, kRowBytes);
        config.tile(7, last_rows, kRowBytes);
        _tile_loadconfig(&config);
        sums_of(blocks, p.x + top * tiles * kRowBytes);  // x is in tiles, see interface.cpp
        for (int m = 0; m < blocks; m++) {
            store_sums(m, sums);
            const int count = m == blocks - 1 ? last_rows : kTileRows;
            for (int b = 0; b < count; b++)
                put(p, outputs, top + m * kTileRows + b, strip, sums[b]);
        }
    }
    _tile_release();
}

template <int Element, bool Sparse>
void all_rows(const Product &p, int64_t strip) {
    using Sum = std::conditional_t<Element == kBf16, float, int32_t>;
    const Weights &w = *p.weights;
    by_blocks<Sum>(p, w.tiles, w.outputs, strip, [&](int blocks, const uint8_t *x) {
        switch (blocks) {
            case 1: strip_sums<Element, Sparse, 1>(w, strip, x); break;
            case 2: strip_sums<Element, Sparse, 2>(w, strip, x); break;
            case 3: strip_sums<Element, Sparse, 3>(w, strip, x); break;
            case 4: strip_sums<Element, Sparse, 4>(w, strip, x); break;
        }
    });
}

}  // namespace

void tile_order(const Product &p, int64_t strip) {
    if (p.weights->element == kBf16) {
        if (p.weights->sparse) all_rows<kBf16, true>(p, strip);
        else all_rows<kBf16, false>(p, strip);
    } else {
        if (p.weights->sparse) all_rows<kInt8, true>(p, strip);
        else all_rows<kInt8, false>(p, strip);
    }
}

// --- attention: few rows of x, short strips one after the other

namespace {

Config attention_config(int rows) {
    Config config;
    config.tile(0, rows, kRowBytes);
    config.tile(4, kTileRows, kRowBytes);
    config.tile(7, rows, kRowBytes);
    return config;
}

// All strips in one run: the tiles of one follow those of the other without a stop.
template <bool Sparse>
void score_strips(const Weights &w, int64_t first, int64_t last, const uint8_t *x, int rows,
                  float *scores, int64_t pitch) {
    constexpr int64_t kLead = 4096;  // bytes of x that are on their way; another core wrote them
    alignas(64) Buffers buffers;
    auto tiles = [&] {
        if constexpr (Sparse)
            return Ahead(SparseSource<kBf16>(w, first), (last - first) * w.tiles, buffers);
        else return DenseTiles<kBf16>(w, first);
    }();
    for (int64_t strip = first; strip < last; strip++) {
        _tile_zero(0);
        for (int64_t t = 0; t < w.tiles; t++) {
            _tile_loadd(4, tiles.next(), kRowBytes);
            const uint8_t *left = x + t * rows * kRowBytes;
            for (int b = 0; b < rows; b++)
                Prefetcher::ask(reinterpret_cast<const char *>(left) + kLead + b * kRowBytes);
            _tile_loadd(7, left, kRowBytes);
            _tile_dpbf16ps(0, 7, 4);
            tiles.expand(0, kTileRows);
        }
        _tile_stored(0, scores + strip * kStripOutputs, pitch * 4);
    }
}

}  // namespace

void key_scores(const Weights &w, int64_t first, int64_t last, const uint8_t *x, int rows,
                float *scores, int64_t pitch) {
    const Config config = attention_config(rows);
    _tile_loadconfig(&config);
    if (w.sparse) score_strips<true>(w, first, last, x, rows, scores, pitch);
    else score_strips<false>(w, first, last, x, rows, scores, pitch);
    _tile_release();
}

void value_sums(const Weights &w, int64_t strip, const uint8_t *x, int rows,
                float (*sums)[kStripOutputs]) {
    const Config config = attention_config(rows);
    _tile_loadconfig(&config);
    // One strip, whose results begin at `sums`.
    float *start = &sums[0][0] - strip * kStripOutputs;
    if (w.sparse) score_strips<true>(w, strip, strip + 1, x, rows, start, kStripOutputs);
    else score_strips<false>(w, strip, strip + 1, x, rows, start, kStripOutputs);
    _tile_release();
}

// --- DECA's tiles: decompressed in software, first operand of the multiplication

namespace {

// Codes of one row of 32 elements, as bytes: 8 codes are `code_bits` bytes, moved to 8 bytes of
// their own and shifted apart there.
struct CodeReader {
    __m256i gather, shifts, low_bits;

    explicit CodeReader(int q) {
        alignas(32) uint8_t from[32], shift[32];
        for (int i = 0; i < 32; i++) {
            from[i] = uint8_t(i / 8 * q + i % 8);
            shift[i] = uint8_t(i % 8 * q);
        }
        gather = _mm256_load_si256(reinterpret_cast<__m256i *>(from));
        shifts = _mm256_load_si256(reinterpret_cast<__m256i *>(shift));
        low_bits = _mm256_set1_epi8(char((1 << q) - 1));
    }

    // From bit `bit` of `data` on; 8 codes of at most 7 bits and an offset of 7 fit 64 bits.
    __m256i read(const uint8_t *data, int64_t bit) const {
        const __m256i bytes =
            _mm256_loadu_si256(reinterpret_cast<const __m256i *>(data + bit / 8));
        const __m256i eights = _mm256_permutexvar_epi8(gather, bytes);
        const __m256i moved = _mm256_add_epi8(shifts, _mm256_set1_epi8(char(bit % 8)));
        return _mm256_and_si256(_mm256_multishift_epi64_epi8(moved, eights), low_bits);
    }
};

// A table of 32 words for each of its registers: codes of 5, 6, 7 or 8 bits.
template <int kRegisters>
struct Table {
    __m512i words[kRegisters];

    explicit Table(const uint16_t *lut) {
        for (int j = 0; j < kRegisters; j++) words[j] = _mm512_loadu_si512(lut + 32 * j);
    }

    __m512i look_up(__m512i codes) const {
        if constexpr (kRegisters == 1) return _mm512_permutexvar_epi16(codes, words[0]);
        __m512i found = _mm512_permutex2var_epi16(words[0], codes, words[1]);
        if constexpr (kRegisters >= 4) {
            const __mmask32 bit6 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(64));
            const __m512i high = _mm512_permutex2var_epi16(words[2], codes, words[3]);
            found = _mm512_mask_mov_epi16(found, bit6, high);
            if constexpr (kRegisters == 8) {
                const __m512i third = _mm512_permutex2var_epi16(words[4], codes, words[5]);
                const __m512i fourth = _mm512_permutex2var_epi16(words[6], codes, words[7]);
                const __m512i upper = _mm512_mask_mov_epi16(third, bit6, fourth);
                const __mmask32 bit7 = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(128));
                found = _mm512_mask_mov_epi16(found, bit7, upper);
            }
        }
        return found;
    }
};

// Elements times a power of two that keeps them normal: an addition to the exponent of nonzeros.
inline __m512i scale(__m512i elements, uint8_t e8m0) {
    const __mmask32 nonzero = _mm512_test_epi16_mask(elements, _mm512_set1_epi16(0x7f80));
    const __m512i exponent = _mm512_set1_epi16(short((int(e8m0) - 127) << 7));
    const __m512i zero = _mm512_and_si512(elements, _mm512_set1_epi16(short(0x8000)));
    return _mm512_mask_add_epi16(zero, nonzero, elements, exponent);
}

// Registers: of the table of codes, 1 for up to 5 bits, 8 for 8 bits; 0 for 16-bit elements.
template <int Registers, bool Sparse, bool Scaled>
struct DecaTiles {
    const DecaWeights &w;
    CodeReader codes;
    Table<std::max(Registers, 1)> table;

    explicit DecaTiles(const DecaWeights &weights)
        : w(weights), codes(std::min(weights.code_bits, 8)), table(weights.lut) {}

    const uint8_t *decompress(int64_t index, const uint8_t *data, uint8_t *tile) const {
        const uint8_t *mask = w.masks + index * 64;
        int64_t bit = 0;
#pragma GCC unroll 4
        for (int r = 0; r < kTileRows; r++) {
            const uint32_t bits = Sparse ? load<uint32_t>(mask + 4 * r) : ~0u;
            __m512i row;
            if constexpr (Registers == 0) {
                row = _mm512_loadu_si512(data + bit / 8);
                if constexpr (Sparse) row = _mm512_maskz_expand_epi16(bits, row);
            } else {
                __m256i bytes;
                if constexpr (Registers == 8)
                    bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(data + bit / 8));
                else
                    bytes = codes.read(data, bit);
                if constexpr (Sparse) bytes = _mm256_maskz_expand_epi8(bits, bytes);
                row = table.look_up(_mm512_cvtepu8_epi16(bytes));
                // Code 0 of a dropped element may stand for another value than zero.
                if constexpr (Sparse) row = _mm512_maskz_mov_epi16(bits, row);
            }
            if constexpr (Scaled) row = scale(row, w.scales[index * kTileRows + r]);
            _mm512_store_si512(tile + r * kRowBytes, row);
            bit += w.code_bits * (Sparse ? __builtin_popcount(bits) : 32);
        }
        return data + (bit + 7) / 8;
    }
};

template <int Registers, bool Sparse, bool Scaled>
class DecaSource {
  public:
    DecaSource(const DecaTiles<Registers, Sparse, Scaled> &tiles, int64_t strip)
        : tiles_(tiles), index_(strip * tiles.w.tiles), mask_(tiles.w.masks + index_ * 64),
          data_(tiles.w.data + tiles.w.data_starts[strip]), mask_lines_(mask_), lines_(data_) {}

    void expand(int, int, uint8_t *tile) {  // whole tiles: their rows share bytes
        data_ = tiles_.decompress(index_++, data_, tile);
        lines_.follow(data_);
        if constexpr (Sparse) mask_lines_.follow(mask_ += 64);
    }

  private:
    const DecaTiles<Registers, Sparse, Scaled> &tiles_;
    int64_t index_;
    const uint8_t *mask_, *data_;
    Prefetcher mask_lines_, lines_;
};

template <int Registers, bool Sparse, bool Scaled>
void deca_strip(const Product &p, int64_t strip) {
    const DecaWeights &w = *p.deca;
    const DecaTiles<Registers, Sparse, Scaled> decompressor(w);
    alignas(64) Buffers buffers;
    alignas(64) float sums[kStripOutputs][kTileRows];
    Config config;
    for (int k = 0; k < 8; k++) config.tile(k, kTileRows, kRowBytes);
    _tile_loadconfig(&config);
    // x is interleaved for the second operand: blocks of 16 rows, each tile after tile.
    const int64_t block_bytes = w.tiles * kTileBytes;
    const int64_t all_blocks = (p.batch + kTileRows - 1) / kTileRows;
    for (int64_t block = 0; block < all_blocks; block += kMaxBlocks) {
        const int blocks = int(std::min<int64_t>(kMaxBlocks, all_blocks - block));
        const uint8_t *x = p.x + block * block_bytes;
        const DecaSource<Registers, Sparse, Scaled> source(decompressor, strip);
        Ahead tiles(source, w.tiles, buffers);
        for (int m = 0; m < blocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
        for (int64_t t = 0; t < w.tiles; t++, x += kTileBytes) {
            _tile_loadd(4, tiles.next(), kRowBytes);
            _tile_loadd(5, x, kRowBytes);
            _tile_dpbf16ps(0, 4, 5);
            tiles.expand(0, kTileRows);
            if (blocks > 1) {
                _tile_loadd(6, x + block_bytes, kRowBytes);
                _tile_dpbf16ps(1, 4, 6);
            }
            if (blocks > 2) {
                _tile_loadd(5, x + 2 * block_bytes, kRowBytes);
                _tile_dpbf16ps(2, 4, 5);
            }
            if (blocks > 3) {
                _tile_loadd(6, x + 3 * block_bytes, kRowBytes);
                _tile_dpbf16ps(3, 4, 6);
            }
        }
        for (int m = 0; m < blocks; m++) {
            store_sums(m, sums);
            const int64_t top = (block + m) * kTileRows;
            const int rows = int(std::min<int64_t>(kTileRows, p.batch - top));
            for (int b = 0; b < rows; b++) {
                float column[kStripOutputs];
                for (int n = 0; n < kStripOutputs; n++) column[n] = sums[n][b];
                put(p, w.outputs, top + b, strip, column);
            }
        }
    }
    _tile_release();
}

template <int Registers>
void deca_table(const Product &p, int64_t strip) {
    const bool scaled = p.deca->scale_kind;
    if (p.deca->sparse)
        return scaled ? deca_strip<Registers, true, true>(p, strip)
                      : deca_strip<Registers, true, false>(p, strip);
    return scaled ? deca_strip<Registers, false, true>(p, strip)
                  : deca_strip<Registers, false, false>(p, strip);
}

}  // namespace

void deca(const Product &p, int64_t strip) {
    switch (p.deca->code_bits) {
        case 16: return deca_table<0>(p, strip);
        case 8: return deca_table<8>(p, strip);
        case 7: return deca_table<4>(p, strip);
        case 6: return deca_table<2>(p, strip);
        default: return deca_table<1>(p, strip);
    }
}

// --- coded weights: tiles of the second operand again, as in Order.TILE above

namespace {

// Elements times powers of two that keep them normal, one for both words of each output.
struct ScaledRows {
    __m512i exponents;

    explicit ScaledRows(const uint8_t *scales) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(scales));
        const __m512i low =
            _mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(127));
        const __m512i moved = _mm512_slli_epi32(low, 7);
        exponents = _mm512_or_si512(_mm512_and_si512(moved, _mm512_set1_epi32(0xffff)),
                                    _mm512_slli_epi32(low, 23));
    }

    __m512i row(__m512i elements) const {
        const __mmask32 nonzero = _mm512_test_epi16_mask(elements, _mm512_set1_epi16(0x7f80));
        return _mm512_maskz_add_epi16(nonzero, elements, exponents);
    }
};

template <class Kind>
class CodedSource {
  public:
    CodedSource(const CodedWeights &w, int64_t strip)
        : stream_(w, w.segment_starts[strip * segments_of(w)]) {}

    [[gnu::always_inline]] void expand(int first, int last, uint8_t *tile) {  // even numbers
        if (first == 0) stream_.next();
        if constexpr (Kind::kScale != kUnscaled) {
            const ScaledRows scaled(stream_.scales());
#pragma GCC unroll 8
            for (int pair = first / 2; pair < last / 2; pair++) {
                const RowPair rows = stream_.rows(pair);
                put(tile, pair, {scaled.row(rows.even), scaled.row(rows.odd)});
            }
        } else {
#pragma GCC unroll 8
            for (int pair = first / 2; pair < last / 2; pair++) put(tile, pair, stream_.rows(pair));
        }
        if (last == kTileRows) stream_.end_of_tile();
    }

  private:
    static void put(uint8_t *tile, int pair, RowPair rows) {
        _mm512_store_si512(tile + 2 * pair * kRowBytes, rows.even);
        _mm512_store_si512(tile + (2 * pair + 1) * kRowBytes, rows.odd);
    }

    typename Kind::Stream stream_;
};

template <class Kind, int Blocks>
void coded_sums(const CodedWeights &w, int64_t strip, const uint8_t *x) {
    alignas(64) Buffers buffers;
    Ahead tiles(CodedSource<Kind>(w, strip), w.tiles, buffers);
    for (int m = 0; m < Blocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
    for (int64_t t = 0; t < w.tiles; t++, x += kTileBytes) {
        _tile_loadd(4, tiles.next(), kRowBytes);
        multiply_all<kBf16, Blocks>(x, w.tiles * kTileBytes, tiles);
    }
}

}  // namespace

void coded_tiles(const Product &p, int64_t strip) {
    const CodedWeights &w = *p.coded;
    with_kind(w, [&](auto kind) {
        using K = decltype(kind);
        by_blocks<float>(p, w.tiles, w.outputs, strip, [&](int blocks, const uint8_t *x) {
            switch (blocks) {
                case 1: coded_sums<K, 1>(w, strip, x); break;
                case 2: coded_sums<K, 2>(w, strip, x); break;
                case 3: coded_sums<K, 3>(w, strip, x); break;
                case 4: coded_sums<K, 4>(w, strip, x); break;
            }
        });
    });
}

// --- measurement

// `rounds` rounds of 4 independent instructions: multiplications (-1), loads of a tile (-2), or
// multiplications that each load a tile of x first (-3), from 512 KB, which the second-level cache
// holds: 64 rows of 4096 bf16. From -4 on: what a tile costs on its way through memory, 16 rows
// expanded from the first-level cache and stored and, two tiles later, their load, with a
// multiplication by a tile of x: one row of it (-4), all of it from the first-level cache (-5), or
// from 128 KB (-6), which the second-level cache holds.
int64_t operations(int kind, int64_t rounds) {
    constexpr int64_t kActivations = 512 * kTileBytes;
    static thread_local std::vector<uint8_t> memory(kActivations + kRowBytes);
    const uintptr_t start = reinterpret_cast<uintptr_t>(memory.data()) + kRowBytes - 1;
    uint8_t *from = reinterpret_cast<uint8_t *>(start & -uintptr_t(kRowBytes));
    Config config;
    for (int k = 0; k < 8; k++) config.tile(k, kTileRows, kRowBytes);
    if (kind == -4) config.tile(0, 1, kRowBytes), config.tile(7, 1, kRowBytes);
    _tile_loadconfig(&config);
    for (int m = 0; m < kMaxBlocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
    _tile_loadd(4, from, kRowBytes);
    _tile_loadd(5, from, kRowBytes);
    if (kind <= -4) {
        alignas(64) Buffers buffers = {};
        const int64_t area = kind == -6 ? 128 * kTileBytes : kTileBytes;
        const uint8_t *values = from + 256 * kTileBytes;
        for (int64_t i = 0; i < 4 * rounds; i++) {
            _tile_loadd(4, buffers[i % kBuffers], kRowBytes);
            _tile_loadd(7, from + i * kTileBytes % area, kRowBytes);
            _tile_dpbf16ps(0, 7, 4);
            uint8_t *tile = buffers[(i + kAhead) % kBuffers];
            const uint8_t *next = values;
#pragma GCC unroll 16
            for (int r = 0; r < kTileRows; r++) {
                const uint32_t bits = 0x5a5a5a5a ^ load<uint32_t>(values + 4 * r);
                const __m512i row = _mm512_maskz_expandloadu_epi16(bits, next);
                next += 2 * __builtin_popcount(bits);
                _mm512_store_si512(tile + r * kRowBytes, row);
            }
            written();
        }
    }
    for (int64_t i = 0; i < rounds && kind == -1; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    for (int64_t i = 0; i < rounds && kind == -2; i++) {
        _tile_loadd(4, from, kRowBytes);
        _tile_loadd(5, from, kRowBytes);
        _tile_loadd(6, from, kRowBytes);
        _tile_loadd(7, from, kRowBytes);
    }
    for (int64_t i = 0; i < rounds && kind == -3; i++) {
        const uint8_t *x = from + i * 4 * kTileBytes % kActivations;
        _tile_loadd(5, x, kRowBytes);
        _tile_dpbf16ps(0, 5, 4);
        _tile_loadd(6, x + kTileBytes, kRowBytes);
        _tile_dpbf16ps(1, 6, 4);
        _tile_loadd(5, x + 2 * kTileBytes, kRowBytes);
        _tile_dpbf16ps(2, 5, 4);
        _tile_loadd(7, x + 3 * kTileBytes, kRowBytes);
        _tile_dpbf16ps(3, 7, 4);
    }
    _tile_stored(0, from, kRowBytes);
    _tile_release();
    return from[0];
}

}  // namespace tilewright::amx
