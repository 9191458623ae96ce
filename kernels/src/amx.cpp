// Order.TILE with AMX: tiles are expanded into a small buffer with AVX-512, loaded from there and
// multiplied. Needs AMX tile, bf16 and int8, and what avx512.cpp needs.

#include <immintrin.h>

#include "kernels.h"
#include "prefetch.h"

namespace tilewright::amx {
namespace {

// Registers: 0..3 sums of up to 64 rows of x, 4 weights, 5 and 6 full tiles of x, 7 its last one.
constexpr int kMaxBlocks = 4;
constexpr int kRowsAtOnce = kMaxBlocks * kTileRows;
constexpr int kBuffers = 4;  // tiles expanded ahead of the one that is multiplied

struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    void tile(int index, int row_count, int bytes) {
        rows[index] = uint8_t(row_count);
        row_bytes[index] = uint16_t(bytes);
    }
};

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

// One tile of weights (register 4) with all tiles of x at this depth, `block_bytes` apart.
template <int Element, int Blocks>
inline void multiply_all(const uint8_t *x, int64_t block_bytes) {
    const auto block = [&](int m) { return x + m * block_bytes; };
    constexpr int pitch = kRowBytes;
    if constexpr (Blocks >= 2) {
        _tile_loadd(5, block(0), pitch);
        TILEWRIGHT_MULTIPLY(0, 5, 4);
    }
    if constexpr (Blocks >= 3) {
        _tile_loadd(6, block(1), pitch);
        TILEWRIGHT_MULTIPLY(1, 6, 4);
    }
    if constexpr (Blocks >= 4) {
        _tile_loadd(5, block(2), pitch);
        TILEWRIGHT_MULTIPLY(2, 5, 4);
    }
    _tile_loadd(7, block(Blocks - 1), pitch);
    if constexpr (Blocks == 1) TILEWRIGHT_MULTIPLY(0, 7, 4);
    if constexpr (Blocks == 2) TILEWRIGHT_MULTIPLY(1, 7, 4);
    if constexpr (Blocks == 3) TILEWRIGHT_MULTIPLY(2, 7, 4);
    if constexpr (Blocks == 4) TILEWRIGHT_MULTIPLY(3, 7, 4);
}

inline void store_sums(int m, void *out) { TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_STORE) }

template <int Element>
const uint8_t *expand_tile(const uint8_t *mask, const uint8_t *values, uint8_t *tile) {
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; r++) {
        __m512i row;
        if constexpr (Element == kBf16) {
            const uint32_t bits = load<uint32_t>(mask + 4 * r);
            row = _mm512_maskz_expandloadu_epi16(bits, values);
            values += 2 * __builtin_popcount(bits);
        } else {
            const uint64_t bits = load<uint64_t>(mask + 8 * r);
            row = _mm512_maskz_expandloadu_epi8(bits, values);
            values += __builtin_popcountll(bits);
        }
        _mm512_store_si512(tile + r * kRowBytes, row);
    }
    return values;
}

template <int Element, bool Sparse, int Blocks>
void strip_sums(const Weights &w, int64_t strip, const uint8_t *x) {
    constexpr int kElementBytes = Element == kBf16 ? 2 : 1;
    constexpr int kMaskBytes = kTileBytes / kElementBytes / 8;
    alignas(64) uint8_t buffers[kBuffers][kTileBytes];
    const uint8_t *mask = w.metadata + (Sparse ? strip * w.tiles * kMaskBytes : 0);
    const uint8_t *values = w.values + w.strip_starts[strip] * kElementBytes;
    Prefetcher value_lines(values), mask_lines(mask);
    for (int m = 0; m < Blocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
    for (int64_t t = 0; t < w.tiles; t++, x += kTileBytes) {
        if constexpr (Sparse) {
            uint8_t *tile = buffers[t % kBuffers];
            values = expand_tile<Element>(mask, values, tile);
            mask += kMaskBytes;
            mask_lines.follow(mask);
            _tile_loadd(4, tile, kRowBytes);
        } else {
            _tile_loadd(4, values, kRowBytes);
            values += kTileBytes;
        }
        value_lines.follow(values);
        multiply_all<Element, Blocks>(x, w.tiles * kTileBytes);
    }
}

template <int Element, bool Sparse>
void strips(const Product &p, int64_t first, int64_t last) {
    using Sum = std::conditional_t<Element == kBf16, float, int32_t>;
    const Weights &w = *p.weights;
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
        const uint8_t *x = p.x + top * w.tiles * kRowBytes;  // in tiles, see interface.cpp
        for (int64_t strip = first; strip < last; strip++) {
            switch (blocks) {
                case 1: strip_sums<Element, Sparse, 1>(w, strip, x); break;
                case 2: strip_sums<Element, Sparse, 2>(w, strip, x); break;
                case 3: strip_sums<Element, Sparse, 3>(w, strip, x); break;
                case 4: strip_sums<Element, Sparse, 4>(w, strip, x); break;
            }
            for (int m = 0; m < blocks; m++) {
                store_sums(m, sums);
                const int count = m == blocks - 1 ? last_rows : kTileRows;
                for (int b = 0; b < count; b++)
                    put(p, w.outputs, top + m * kTileRows + b, strip, sums[b]);
            }
        }
    }
    _tile_release();
}

}  // namespace

void tile_order(const Product &p, int64_t first, int64_t last) {
    if (first == last) return;
    if (p.weights->element == kBf16) {
        if (p.weights->sparse) strips<kBf16, true>(p, first, last);
        else strips<kBf16, false>(p, first, last);
    } else {
        if (p.weights->sparse) strips<kInt8, true>(p, first, last);
        else strips<kInt8, false>(p, first, last);
    }
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
void deca_strips(const Product &p, int64_t first, int64_t last) {
    const DecaWeights &w = *p.deca;
    const DecaTiles<Registers, Sparse, Scaled> tiles(w);
    alignas(64) uint8_t buffers[kBuffers][kTileBytes];
    alignas(64) float sums[kStripOutputs][kTileRows];
    Config config;
    for (int k = 0; k < 8; k++) config.tile(k, kTileRows, kRowBytes);
    _tile_loadconfig(&config);
    // x is interleaved for the second operand: blocks of 16 rows, each tile after tile.
    const int64_t block_bytes = w.tiles * kTileBytes;
    const int64_t all_blocks = (p.batch + kTileRows - 1) / kTileRows;
    for (int64_t strip = first; strip < last; strip++)
        for (int64_t block = 0; block < all_blocks; block += kMaxBlocks) {
            const int blocks = int(std::min<int64_t>(kMaxBlocks, all_blocks - block));
            const uint8_t *data = w.data + w.data_starts[strip];
            const uint8_t *x = p.x + block * block_bytes;
            const uint8_t *mask = w.masks + strip * w.tiles * 64;
            Prefetcher lines(data), mask_lines(mask);
            for (int m = 0; m < blocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
            for (int64_t t = 0; t < w.tiles; t++, x += kTileBytes) {
                uint8_t *tile = buffers[t % kBuffers];
                data = tiles.decompress(strip * w.tiles + t, data, tile);
                lines.follow(data);
                if constexpr (Sparse) mask_lines.follow(mask += 64);
                _tile_loadd(4, tile, kRowBytes);
                _tile_loadd(5, x, kRowBytes);
                _tile_dpbf16ps(0, 4, 5);
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
void deca_table(const Product &p, int64_t first, int64_t last) {
    const bool scaled = p.deca->scale_kind;
    if (p.deca->sparse)
        return scaled ? deca_strips<Registers, true, true>(p, first, last)
                      : deca_strips<Registers, true, false>(p, first, last);
    return scaled ? deca_strips<Registers, false, true>(p, first, last)
                  : deca_strips<Registers, false, false>(p, first, last);
}

}  // namespace

void deca(const Product &p, int64_t first, int64_t last) {
    if (first == last) return;
    switch (p.deca->code_bits) {
        case 16: return deca_table<0>(p, first, last);
        case 8: return deca_table<8>(p, first, last);
        case 7: return deca_table<4>(p, first, last);
        case 6: return deca_table<2>(p, first, last);
        default: return deca_table<1>(p, first, last);
    }
}

// --- measurement: `rounds` rounds of 4 independent multiplications, or of 4 loads of a tile

int64_t operations(int64_t rounds, bool loads) {
    alignas(64) uint8_t memory[kTileBytes] = {};
    Config config;
    for (int k = 0; k < 8; k++) config.tile(k, kTileRows, kRowBytes);
    _tile_loadconfig(&config);
    for (int m = 0; m < kMaxBlocks; m++) TILEWRIGHT_FOR_BLOCK(m, TILEWRIGHT_ZERO)
    _tile_loadd(4, memory, kRowBytes);
    _tile_loadd(5, memory, kRowBytes);
    for (int64_t i = 0; i < rounds && !loads; i++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    for (int64_t i = 0; i < rounds && loads; i++) {
        _tile_loadd(4, memory, kRowBytes);
        _tile_loadd(5, memory, kRowBytes);
        _tile_loadd(6, memory, kRowBytes);
        _tile_loadd(7, memory, kRowBytes);
    }
    _tile_stored(0, memory, kRowBytes);
    _tile_release();
    return memory[0];
}

}  // namespace tilewright::amx
