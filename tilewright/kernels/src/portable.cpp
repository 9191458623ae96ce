// Every kernel in plain C++: the fallback of any machine, and what the others are compared with.

#include "kernels.h"

namespace tilewright::portable {
namespace {

float operand(uint16_t bits) { return flush(from_bf16(bits)); }

// fp32 of a double. Results are rounded to 24 bits as if the exponent had no lower limit and then
// flushed if subnormal; a float would round on the subnormals' coarser grid instead. 24 bits end at
// 2^-150 below the smallest normal, and half of that, a tie, still rounds up to it.
float rounded(double value) {
    constexpr double kSmallestKept = 0x1p-126 - 0x1p-151;
    return std::fabs(value) < kSmallestKept ? float(std::copysign(0.0, value)) : float(value);
}

// Fused multiply-add of bf16 factors to fp32, as AMX and VDPBF16PS do it. The product of two 8-bit
// significands is exact in double, and 53 bits are no fewer than 2 * 24 + 2, so rounding the sum to
// double first and then to 24 bits gives what one rounding would.
float fused(float a, float b, float sum) { return rounded(double(sum) + double(a) * double(b)); }

// The same where the product may have more bits than a double keeps next to the sum.
float fused_wide(float a, float b, float sum) {
    const float result = std::fma(a, b, sum);
    return std::fabs(result) < 0x1p-125f ? fused(a, b, sum) : result;
}

// One row of a tile, dense, from a stream of nonzeros; returns how many it took.
template <class T, class Mask>
int expand(T *row, Mask mask, const T *values) {
    int taken = 0;
    for (size_t i = 0; i < kRowBytes / sizeof(T); i++) row[i] = mask >> i & 1 ? values[taken++] : T(0);
    return taken;
}

// Walks through the tiles of a strip and hands each out dense.
template <class T, class Mask>
class Strip {
  public:
    explicit Strip(const Weights &w, int64_t strip) : Strip(w, strip, 0, w.strip_starts[strip]) {}

    Strip(const Weights &w, const Segment &s) : Strip(w, s.strip, s.first, s.start) {}

    const T (*next())[kRowBytes / sizeof(T)] {
        if (!sparse_) {
            std::memcpy(tile_, values_, kTileBytes);
            values_ += kTileBytes / sizeof(T);
            return tile_;
        }
        for (int r = 0; r < kTileRows; r++, mask_ += sizeof(Mask))
            values_ += expand<T, Mask>(tile_[r], load<Mask>(mask_), values_);
        return tile_;
    }

  private:
    Strip(const Weights &w, int64_t strip, int64_t tile, int64_t start)
        : sparse_(w.sparse),
          mask_(w.metadata +
                (w.sparse ? (strip * w.tiles + tile) * kTileRows * sizeof(Mask) : 0)),
          values_(reinterpret_cast<const T *>(w.values) + start) {}

    bool sparse_;
    const uint8_t *mask_;
    const T *values_;
    T tile_[kTileRows][kRowBytes / sizeof(T)];
};

// c[n] += x . w[.][n] over one tile, as TDPBF16PS: even and odd depths apart.
void tile_step(float *c, const uint16_t *x, const uint16_t (*w)[32]) {
    float even[kStripOutputs] = {}, odd[kStripOutputs] = {};
    for (int r = 0; r < kTileRows; r++) {
        const float x0 = operand(x[2 * r]), x1 = operand(x[2 * r + 1]);
        for (int n = 0; n < kStripOutputs; n++) {
            even[n] = fused(x0, operand(w[r][2 * n]), even[n]);
            odd[n] = fused(x1, operand(w[r][2 * n + 1]), odd[n]);
        }
    }
    for (int n = 0; n < kStripOutputs; n++) c[n] = plus(c[n], plus(even[n], odd[n]));
}

// Rows of x at a time, so that a tile is expanded once for several of them.
constexpr int kRowsAtOnce = 16;

// c[n] += x . w[.][n] over one int8 tile.
void tile_step(int32_t *c, const int8_t *quads, const int8_t (*w)[64]) {
    for (int r = 0; r < kTileRows; r++)
        for (int n = 0; n < kStripOutputs; n++) {
            int32_t dot = 0;
            for (int j = 0; j < 4; j++) dot += quads[4 * r + j] * w[r][4 * n + j];
            c[n] = plus(c[n], dot);
        }
}

template <class T>
const T *row_of(const uint8_t *x, int64_t pitch, int row, int64_t tile) {
    return reinterpret_cast<const T *>(x + row * pitch + tile * kRowBytes);
}

template <class T, class Mask, class Sum>
void tile_strip(const Product &p, int64_t strip) {
    const Weights &w = *p.weights;
    Sum sums[kRowsAtOnce][kStripOutputs];
    for (int64_t top = 0; top < p.batch; top += kRowsAtOnce) {
        const int rows = int(std::min<int64_t>(kRowsAtOnce, p.batch - top));
        const uint8_t *x = p.x + top * p.x_pitch;
        Strip<T, Mask> tiles(w, strip);
        std::memset(sums, 0, sizeof sums);
        for (int64_t t = 0; t < w.tiles; t++) {
            const auto *tile = tiles.next();
            for (int b = 0; b < rows; b++)
                tile_step(sums[b], row_of<T>(x, p.x_pitch, b, t), tile);
        }
        for (int b = 0; b < rows; b++) put(p, w.outputs, top + b, strip, sums[b]);
    }
}

void bf16_segment(const Product &p, const Segment &segment, float (*sums)[kStripOutputs]) {
    float chains[kRowsAtOnce][kChains][kStripOutputs];
    for (int64_t top = 0; top < p.batch; top += kRowsAtOnce) {
        const int rows = int(std::min<int64_t>(kRowsAtOnce, p.batch - top));
        const uint8_t *x = p.x + top * p.x_pitch;
        Strip<uint16_t, uint32_t> tiles(*p.weights, segment);
        std::memset(chains, 0, sizeof chains);
        for (int64_t t = segment.first; t < segment.last; t++) {
            const auto *tile = tiles.next();
            for (int b = 0; b < rows; b++) {
                const uint16_t *pairs = row_of<uint16_t>(x, p.x_pitch, b, t);
                for (int r = 0; r < kTileRows; r++) {
                    float *sum = chains[b][r % kChains];
                    const float x0 = operand(pairs[2 * r]), x1 = operand(pairs[2 * r + 1]);
                    for (int n = 0; n < kStripOutputs; n++) {
                        sum[n] = fused(x1, operand(tile[r][2 * n + 1]), sum[n]);
                        sum[n] = fused(x0, operand(tile[r][2 * n]), sum[n]);
                    }
                }
            }
        }
        for (int b = 0; b < rows; b++)
            for (int n = 0; n < kStripOutputs; n++)
                sums[top + b][n] = plus(plus(chains[b][0][n], chains[b][1][n]),
                                        plus(chains[b][2][n], chains[b][3][n]));
    }
}

void int8_segment(const Product &p, const Segment &segment, int32_t (*sums)[kStripOutputs]) {
    Strip<int8_t, uint64_t> tiles(*p.weights, segment);
    std::memset(sums, 0, p.batch * sizeof *sums);
    for (int64_t t = segment.first; t < segment.last; t++) {
        const auto *tile = tiles.next();
        for (int64_t b = 0; b < p.batch; b++)
            tile_step(sums[b], row_of<int8_t>(p.x, p.x_pitch, int(b), t), tile);
    }
}

}  // namespace

void tile_order(const Product &p, int64_t strip) {
    if (p.weights->element == kInt8) tile_strip<int8_t, uint64_t, int32_t>(p, strip);
    else tile_strip<uint16_t, uint32_t, float>(p, strip);
}

void vector_order(const Product &p, int64_t strip, int64_t segment, void *sums) {
    const Segment tiles(*p.weights, strip, segment);
    if (p.weights->element == kInt8)
        int8_segment(p, tiles, static_cast<int32_t(*)[kStripOutputs]>(sums));
    else
        bf16_segment(p, tiles, static_cast<float(*)[kStripOutputs]>(sums));
}

// --- attention

namespace {

const uint16_t *compact_row(const uint8_t *x, int rows, int row, int64_t tile) {
    return reinterpret_cast<const uint16_t *>(x + (tile * rows + row) * kRowBytes);
}

void strip_of_attention(const Weights &w, int64_t strip, const uint8_t *x, int rows,
                        float (*sums)[kStripOutputs]) {
    std::memset(sums, 0, rows * sizeof *sums);
    Strip<uint16_t, uint32_t> tiles(w, strip);
    for (int64_t t = 0; t < w.tiles; t++) {
        const auto *tile = tiles.next();
        for (int b = 0; b < rows; b++) tile_step(sums[b], compact_row(x, rows, b, t), tile);
    }
}

}  // namespace

void key_scores(const Weights &w, int64_t first, int64_t last, const uint8_t *x, int rows,
                float *scores, int64_t pitch) {
    float sums[kTileRows][kStripOutputs];
    for (int64_t strip = first; strip < last; strip++) {
        strip_of_attention(w, strip, x, rows, sums);
        for (int b = 0; b < rows; b++)
            std::memcpy(scores + b * pitch + strip * kStripOutputs, sums[b], sizeof sums[b]);
    }
}

void value_sums(const Weights &w, int64_t strip, const uint8_t *x, int rows,
                float (*sums)[kStripOutputs]) {
    strip_of_attention(w, strip, x, rows, sums);
}

namespace {

// exp of what is not positive, with plain additions and multiplications of doubles, so that every
// path has the same bits: the relative error is below 1e-11, of a result that is rounded to 8 bits.
double power(double x) {
    x = std::max(x, -700.0);
    const double magic = 0x1.8p52;  // its last bit is worth 1
    const double moved = x * 0x1.71547652b82fep0 + magic, k = moved - magic;
    const double r = x - k * 0x1.62e42fefa39efp-1;
    double sum = kExpTerms[0];
    for (int i = 1; i < kExpCount; i++) sum = sum * r + kExpTerms[i];
    const uint64_t bits = load<uint64_t>(&sum) + (load<uint64_t>(&moved) << 52);
    return load<double>(&bits);
}

}  // namespace

float largest(const float *scores, int64_t count, float most) {
    for (int64_t i = 0; i < count; i++) most = std::max(most, scores[i]);
    return most;
}

void powers(const float *scores, int64_t count, float largest, double factor, double *out,
            double *sums) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = power((double(scores[i]) - double(largest)) * factor);
        sums[i % 8] += out[i];
    }
}

void round_powers(const double *powers, int64_t count, double factor, uint16_t *out) {
    for (int64_t i = 0; i < count; i++) {
        const double value = powers[i] * factor;
        uint64_t bits = load<uint64_t>(&value);
        bits = (bits + ((uint64_t(1) << 44) - 1) + (bits >> 45 & 1)) >> 45 << 45;
        const double rounded = load<double>(&bits);
        // Tile multiplications count subnormal numbers as zero.
        const float narrow = rounded < double(kSmallestNormal) ? 0.0f : float(rounded);
        out[i] = uint16_t(load<uint32_t>(&narrow) >> 16);
    }
}

// --- DECA's tiles

namespace {

// bf16 of an exact product, to nearest even; what is subnormal when rounded to 8 bits is flushed.
uint16_t bf16_product(uint16_t element, double scale) {
    const double value = double(operand(element)) * scale;
    if (std::isnan(value)) return 0x7fc0;
    // 8 significant bits of the exact product; float would round it only outside its range.
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // 0.5 <= |fraction| < 1
    if (value == 0 || std::isinf(value)) return uint16_t(to_bf16(float(value)));
    const double shortened = std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
    if (std::fabs(shortened) < double(kSmallestNormal)) return value < 0 ? 0x8000 : 0;
    return to_bf16(float(shortened));  // infinity beyond float's range
}

double scale_value(const DecaWeights &w, int64_t index) {
    if (w.scale_kind == 2) return double(operand(load<uint16_t>(w.scales + 2 * index)));
    const int byte = w.scales[index];
    return byte == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, byte - 127);
}

// Tile number `index` of the matrix, whose codes begin at `data`, in the order of TDPBF16PS's
// second operand: row r holds inputs 2r and 2r + 1 of every output. Returns its bytes of codes.
int64_t decompress(const DecaWeights &w, int64_t index, const uint8_t *data, uint16_t (*tile)[32]) {
    const uint32_t code_mask = (1u << w.code_bits) - 1;
    int64_t bit = 0;
    for (int i = 0; i < 512; i++) {
        uint16_t element = 0;
        if (!w.sparse || w.masks[index * 64 + i / 8] >> i % 8 & 1) {
            const uint32_t code = load<uint32_t>(data + bit / 8) >> bit % 8 & code_mask;
            bit += w.code_bits;
            element = w.code_bits == 16 ? uint16_t(code) : w.lut[code];
            if (w.scale_kind)
                element = bf16_product(element, scale_value(w, (index * 512 + i) / w.group));
        }
        const int output = i / 32, input = i % 32;
        tile[input / 2][2 * output + input % 2] = element;
    }
    return (bit + 7) / 8;
}

}  // namespace

void deca(const Product &p, int64_t strip) {
    const DecaWeights &w = *p.deca;
    uint16_t tile[kTileRows][32];
    float sums[kRowsAtOnce][kStripOutputs];
    for (int64_t top = 0; top < p.batch; top += kRowsAtOnce) {
        const int rows = int(std::min<int64_t>(kRowsAtOnce, p.batch - top));
        const uint8_t *x = p.x + top * p.x_pitch, *data = w.data + w.data_starts[strip];
        std::memset(sums, 0, sizeof sums);
        for (int64_t t = 0; t < w.tiles; t++) {
            data += decompress(w, strip * w.tiles + t, data, tile);
            for (int b = 0; b < rows; b++)
                tile_step(sums[b], row_of<uint16_t>(x, p.x_pitch, b, t), tile);
        }
        for (int b = 0; b < rows; b++) put(p, w.outputs, top + b, strip, sums[b]);
    }
}

// --- coded weights

namespace {

// A finite number of a small float format; all of them are numbers of fp32.
template <int ExponentBits, int MantissaBits>
float small_float(uint32_t bits) {
    constexpr int kBias = (1 << (ExponentBits - 1)) - 1;
    const uint32_t exponent = bits >> MantissaBits & ((1u << ExponentBits) - 1);
    const uint32_t fraction = bits & ((1u << MantissaBits) - 1);
    const uint32_t whole = fraction + (exponent ? 1u << MantissaBits : 0);
    const float size = std::ldexp(float(whole), int(std::max(exponent, 1u)) - kBias - MantissaBits);
    return bits >> (ExponentBits + MantissaBits) & 1 ? -size : size;
}

// The tiles of a segment one after the other: unscaled elements, and what each output is scaled by.
class CodedStrip {
  public:
    CodedStrip(const CodedWeights &w, int64_t start) : w_(w), from_(w.stream + start) {}

    const uint16_t (*next())[32] {
        const uint8_t *mask = from_;
        if (w_.sparse) from_ += kMaskBytes;
        scales_ = from_;
        from_ += scale_bytes_of(w_.scale);
        const int64_t kept = count(mask), half = (kept + 1) / 2;
        int64_t taken = 0;
        for (int slot = 0; slot < 512; slot++) {
            // Eight words of a row, then eight of the next one: see golden/sparamx/coded.py.
            const int row = slot / 64 * 2 + slot / 8 % 2, word = slot / 16 % 4 * 8 + slot % 8;
            uint16_t element = 0;
            if (!w_.sparse || mask[slot / 8] >> slot % 8 & 1) {
                element = w_.table[code(row, word, taken, half)];
                taken++;
            }
            tile_[row][word] = element;
        }
        from_ += w_.code_bits == 8 ? kept : half;
        return tile_;
    }

    // e8m0 scale of an output in the last tile.
    uint8_t scale(int output) const { return scales_[output]; }

    // The factor of a group of an output.
    float factor(int group, int output) const {
        const int place = group * kStripOutputs + output;
        const uint16_t word = load<uint16_t>(scales_ + 2 * output * (w_.scale != kE4m3));
        switch (w_.scale) {
            case kPower: {
                const uint32_t power = uint32_t(scales_[place]) << 23;
                return load<float>(&power);
            }
            case kFp16: return small_float<5, 10>(word);
            case kBf16Scale: return from_bf16(word);
            default: return small_float<4, 3>(scales_[place]) * w_.tensor_scale;
        }
    }

  private:
    int64_t count(const uint8_t *mask) const {
        if (!w_.sparse) return 512;
        int64_t bits = 0;
        for (int i = 0; i < kMaskBytes; i++) bits += __builtin_popcount(mask[i]);
        return bits;
    }

    int code(int row, int word, int64_t taken, int64_t half) const {
        if (w_.code_bits == 8) return from_[taken];
        if (w_.sparse)
            return taken < half ? from_[taken] & 15 : from_[taken - half] >> 4;
        return load<uint16_t>(from_ + row / 4 * kRowBytes + 2 * word) >> row % 4 * 4 & 15;
    }

    const CodedWeights &w_;
    const uint8_t *from_, *scales_ = nullptr;
    uint16_t tile_[kTileRows][32];
};

}  // namespace

void coded_tiles(const Product &p, int64_t strip) {
    const CodedWeights &w = *p.coded;
    uint16_t scaled[kTileRows][32];
    float sums[kRowsAtOnce][kStripOutputs];
    for (int64_t top = 0; top < p.batch; top += kRowsAtOnce) {
        const int rows = int(std::min<int64_t>(kRowsAtOnce, p.batch - top));
        const uint8_t *x = p.x + top * p.x_pitch;
        CodedStrip tiles(w, w.segment_starts[strip * segments_of(w)]);
        std::memset(sums, 0, sizeof sums);
        for (int64_t t = 0; t < w.tiles; t++) {
            const uint16_t(*tile)[32] = tiles.next();
            if (w.scale == kPower) {
                for (int r = 0; r < kTileRows; r++)
                    for (int i = 0; i < 32; i++)
                        scaled[r][i] =
                            bf16_product(tile[r][i], std::ldexp(1.0, tiles.scale(i / 2) - 127));
                tile = scaled;
            }
            for (int b = 0; b < rows; b++)
                tile_step(sums[b], row_of<uint16_t>(x, p.x_pitch, b, t), tile);
        }
        for (int b = 0; b < rows; b++) put(p, w.outputs, top + b, strip, sums[b]);
    }
}

void coded_vectors(const Product &p, int64_t strip, int64_t segment_index, void *all_sums) {
    const CodedWeights &w = *p.coded;
    const Segment segment(w, strip, segment_index);
    float(*sums)[kStripOutputs] = static_cast<float(*)[kStripOutputs]>(all_sums);
    float chains[kChains][kStripOutputs];
    const auto joined = [&](int n) {
        return plus(plus(chains[0][n], chains[1][n]), plus(chains[2][n], chains[3][n]));
    };
    for (int64_t b = 0; b < p.batch; b++) {
        CodedStrip tiles(w, segment.start);
        std::memset(chains, 0, sizeof chains);
        std::memset(sums[b], 0, sizeof sums[b]);
        for (int64_t t = segment.first; t < segment.last; t++) {
            const uint16_t(*tile)[32] = tiles.next();
            const uint16_t *pairs = row_of<uint16_t>(p.x, p.x_pitch, int(b), t);
            const int groups = groups_of(w.scale);
            for (int r = 0; r < kTileRows; r++) {
                float *sum = chains[r % kChains];
                const float x0 = operand(pairs[2 * r]), x1 = operand(pairs[2 * r + 1]);
                for (int n = 0; n < kStripOutputs; n++) {
                    sum[n] = fused(x1, operand(tile[r][2 * n + 1]), sum[n]);
                    sum[n] = fused(x0, operand(tile[r][2 * n]), sum[n]);
                }
                if (!groups || (r + 1) * groups % kTileRows) continue;
                const int group = (r + 1) * groups / kTileRows - 1;
                for (int n = 0; n < kStripOutputs; n++)
                    sums[b][n] = fused_wide(joined(n), flush(tiles.factor(group, n)), sums[b][n]);
                std::memset(chains, 0, sizeof chains);
            }
        }
        if (w.scale == kUnscaled)
            for (int n = 0; n < kStripOutputs; n++) sums[b][n] = joined(n);
    }
}

int64_t read_all(const uint8_t *from, int64_t bytes) {
    uint64_t sum[8] = {};
    for (int64_t i = 0; i + 64 <= bytes; i += 64)
        for (int j = 0; j < 8; j++) sum[j] += load<uint64_t>(from + i + 8 * j);
    uint64_t total = 0;
    for (uint64_t part : sum) total += part;
    return int64_t(total);
}

}  // namespace tilewright::portable
