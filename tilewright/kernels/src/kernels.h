// What the sources of the kernels share. All of it is plain C where Python sees it (interface.cpp).
//
// Names, layouts and the order of sums are those of golden/sparamx and golden/deca, which are the
// specification: every path below gives their bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tilewright {

constexpr int kTileRows = 16;
constexpr int kStripOutputs = 16;
constexpr int kRowBytes = 64;
constexpr int kTileBytes = kTileRows * kRowBytes;
constexpr int kChains = 4;         // sums that Order.VECTOR keeps apart
constexpr int kSegmentTiles = 32;  // what it adds up before it goes on to another part of a strip
constexpr int kCodedSegmentTiles = 64;  // the same of coded weights, whose tiles are smaller
constexpr int kMaskBytes = 64;      // in the record of a coded tile

enum Element : int32_t { kBf16 = 0, kInt8 = 1 };
enum Order : int32_t { kTileOrder = 0, kVectorOrder = 1 };
enum Path : int32_t { kPortable = 0, kAvx512 = 1, kAmx = 2 };

// tilewright.golden.sparamx.PackedWeights; the memory belongs to the caller.
struct Weights {
    int32_t element, sparse;
    int64_t outputs, inputs;
    int64_t strips, tiles;        // tiles of one strip
    const uint8_t *metadata;        // 1 bit per element, tile after tile
    const uint8_t *values;          // 64 readable bytes follow the last one
    const int64_t *strip_starts;    // strips + 1 indices into values
    const int64_t *segment_starts;  // those of every strip's segments
    const int32_t *weight_sums;     // int8: sum of each output's weights, strips * 16 of them
};

// tilewright.golden.deca.CompressedMatrix of bf16 tiles, likewise.
struct DecaWeights {
    int32_t code_bits, sparse, scale_kind, group;  // scale_kind: 0 none, 1 e8m0, 2 bf16
    int32_t plain_scales;  // e8m0 bytes that keep every product of the table a normal number
    int64_t outputs, inputs;
    int64_t strips, tiles;
    const uint8_t *masks, *scales, *data;  // 64 readable bytes follow each
    const int64_t *data_starts;            // strips + 1 byte offsets into data
    const uint16_t *lut;                   // 256 bf16 patterns
};

// Scales of a coded tile, of 16 outputs each: golden.sparamx.coded.SCALES.
enum CodedScale : int32_t { kUnscaled = 0, kPower = 1, kFp16 = 2, kBf16Scale = 3, kE4m3 = 4 };
constexpr int groups_of(int scale) { return scale == kUnscaled ? 0 : scale == kE4m3 ? 2 : 1; }
constexpr int scale_bytes_of(int scale) {
    return kStripOutputs * (scale == kUnscaled ? 0 : scale == kPower ? 1 : 2);
}

// tilewright.golden.sparamx.coded.CodedWeights, likewise.
struct CodedWeights {
    int32_t code_bits, sparse, scale, low_mask;  // scale: a CodedScale
    int32_t plain_scales;  // as above
    int64_t outputs, inputs;
    int64_t strips, tiles;
    const uint8_t *stream;          // 256 readable bytes follow the last record
    const int64_t *segment_starts;  // of every strip's segments, and the end
    const uint16_t *table;          // 256 bf16 patterns
    float tensor_scale;             // of kE4m3
};

// One multiplication: y = x * weights. Strips of several products form one list for the threads.
struct Product {
    const Weights *weights;
    const DecaWeights *deca;  // one of `weights`, this and `coded`; the others are null
    const uint8_t *x;         // batch rows of bf16 or int8
    int64_t batch, x_pitch;   // bytes from row to row
    void *y;                  // fp32, bf16 or int32
    int64_t y_pitch;          // elements from row to row
    const float *bias;        // of each output, or null
    const float *scales;      // of each output of int8 weights: x is bf16 and y like that of floats
    int32_t y_bf16;           // round fp32 sums to bf16
    int32_t gated;            // strips of gates and of values by turns: y = silu(gate) * value
    // Set by the multiplication itself.
    const float *x_steps;     // with `scales`: what 1 of each quantised row stands for
    float *halves;            // with `gated`: sums, batch rows of all strips
    const CodedWeights *coded;
};

// What one call multiplies. Everything in one structure: Python passes one argument faster than six.
struct Call {
    const Product *products;
    int64_t count;
    const int64_t *bounds;  // first strip of each thread, and behind the last one
    int32_t threads, path, order;
};

// What all kinds of weights have: `member` of the one that the product is of.
template <class Get>
inline int64_t of_weights(const Product &p, Get get) {
    if (p.weights) return get(*p.weights);
    return p.deca ? get(*p.deca) : get(*p.coded);
}

inline int64_t strips_of(const Product &p) {
    return of_weights(p, [](const auto &w) { return w.strips; });
}
inline int64_t tiles_of(const Product &p) {
    return of_weights(p, [](const auto &w) { return w.tiles; });
}
inline int64_t inputs_of(const Product &p) {
    return of_weights(p, [](const auto &w) { return w.inputs; });
}
inline int64_t outputs_of(const Product &p) {
    return of_weights(p, [](const auto &w) { return w.outputs; });
}

inline int64_t segments_of(const Weights &w) {
    return (w.tiles + kSegmentTiles - 1) / kSegmentTiles;
}
inline int64_t segments_of(const CodedWeights &w) {
    return (w.tiles + kCodedSegmentTiles - 1) / kCodedSegmentTiles;
}

// Tiles [first, last) of a strip, and where their values begin.
struct Segment {
    int64_t strip, first, last, start;

    Segment(const Weights &w, int64_t strip, int64_t segment)
        : strip(strip), first(segment * kSegmentTiles),
          last(std::min<int64_t>(w.tiles, first + kSegmentTiles)),
          start(w.segment_starts[strip * segments_of(w) + segment]) {}

    Segment(const CodedWeights &w, int64_t strip, int64_t segment)
        : strip(strip), first(segment * kCodedSegmentTiles),
          last(std::min<int64_t>(w.tiles, first + kCodedSegmentTiles)),
          start(w.segment_starts[strip * segments_of(w) + segment]) {}
};

// Rows of x are padded to whole tiles for every kernel. A strip kernel computes one strip of y.
using StripKernel = void (*)(const Product &, int64_t strip);
// A segment kernel leaves the sums of one segment, batch rows of 16 floats or int32, to the caller.
using SegmentKernel = void (*)(const Product &, int64_t strip, int64_t segment, void *sums);
// A pair kernel computes one strip of y, or two.
using PairKernel = void (*)(const Product &, int64_t strip, int64_t strips);

// Attention for one token, both GEMMs in tile order (attention.cpp). x is in tiles of `rows` rows
// of 64 bytes, at most 16; results are `pitch` floats apart.
using KeyKernel = void (*)(const Weights &, int64_t first_strip, int64_t last_strip,
                           const uint8_t *x, int rows, float *scores, int64_t pitch);
using ValueKernel = void (*)(const Weights &, int64_t strip, const uint8_t *x, int rows,
                             float (*sums)[kStripOutputs]);
// exp((score - largest) * factor) of `count` scores, doubles; returns 8 sums, of every eighth one.
using PowerKernel = void (*)(const float *scores, int64_t count, float largest, double factor,
                             double *powers, double *sums);
using MostKernel = float (*)(const float *scores, int64_t count, float most);
// Powers times `factor`, rounded to bf16 once.
using RoundKernel = void (*)(const double *powers, int64_t count, double factor, uint16_t *out);

namespace portable {
void key_scores(const Weights &, int64_t, int64_t, const uint8_t *, int, float *, int64_t);
void value_sums(const Weights &, int64_t, const uint8_t *, int, float (*)[kStripOutputs]);
float largest(const float *, int64_t, float);
void powers(const float *, int64_t, float, double, double *, double *);
void round_powers(const double *, int64_t, double, uint16_t *);
void tile_order(const Product &, int64_t);
void vector_order(const Product &, int64_t, int64_t, void *);
void deca(const Product &, int64_t);
void coded_tiles(const Product &, int64_t);
void coded_vectors(const Product &, int64_t, int64_t, void *);
int64_t read_all(const uint8_t *, int64_t bytes);
}  // namespace portable
namespace avx512 {
float largest(const float *, int64_t, float);
void powers(const float *, int64_t, float, double, double *, double *);
void round_powers(const double *, int64_t, double, uint16_t *);
void vector_order(const Product &, int64_t, int64_t, void *);
void coded_vectors(const Product &, int64_t, int64_t, void *);
int64_t read_all(const uint8_t *, int64_t bytes);
int64_t operations(int kind, int64_t rounds);
}  // namespace avx512
namespace amx {
void key_scores(const Weights &, int64_t, int64_t, const uint8_t *, int, float *, int64_t);
void value_sums(const Weights &, int64_t, const uint8_t *, int, float (*)[kStripOutputs]);
void tile_order(const Product &, int64_t);
void many_rows(const Product &, int64_t, int64_t);
void deca(const Product &, int64_t);
void coded_tiles(const Product &, int64_t);
int64_t operations(int kind, int64_t rounds);
}  // namespace amx

// What a decoder layer does with one row, by one thread (elementwise.cpp): a norm, a head turned by
// the angles of its token to another place, and a sum.
void bf16_norm(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t length,
               float epsilon);
void bf16_turn(const uint16_t *head, const uint16_t *cosines, const uint16_t *sines, int64_t dim,
               uint16_t *to);
void bf16_add(const uint16_t *x, const uint16_t *more, uint16_t *y, int64_t count);
// One query's products with bf16 keys (tokens, dim), and the sum of bf16 values by weights, of which
// the last one's lies elsewhere, rounded to bf16. Sums are fp32 in an order of their own, the same
// on every processor.
void bf16_dots(const uint16_t *query, const uint16_t *keys, int64_t tokens, int64_t dim,
               float *scores);
void bf16_mix(const float *weights, const uint16_t *values, int64_t tokens, const uint16_t *last,
              int64_t dim, uint16_t *out);

// Paths are found once, and with them whether the system grants the tile registers.
bool has(Path path);

// --- the pool

constexpr int kMaxThreads = 1000;

// Work for a team of threads, each of which calls `run` once with its number.
struct Task {
    virtual void run(int thread, int team) const = 0;
};
// Runs a task on a team side by side and returns when all are done. The team has `threads` threads,
// or fewer where the pool is another library's that has a limit of its own.
void run_in_pool(int threads, const Task &task);
// The pool of the OpenMP runtime that PyTorch has loaded, from now on; false where there is none.
bool join_openmp();
bool run_in_openmp(int threads, const Task &task);  // false where it was not joined
// Between two looks at what another thread does; gives the processor away after a while, or at
// once where there are more threads than processors.
void wait_a_little(int looks);
void spin_if_room(int threads);  // what decides between the two, for a team of another pool

// What ThreadSanitizer cannot see in a runtime that was compiled without it: whatever a thread did
// before `ends_before` is done when another one is past `starts_after`.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void *);
extern "C" void __tsan_release(void *);
inline void starts_after(const void *point) { __tsan_acquire(const_cast<void *>(point)); }
inline void ends_before(const void *point) { __tsan_release(const_cast<void *>(point)); }
#else
inline void starts_after(const void *) {}
inline void ends_before(const void *) {}
#endif

// --- small pieces that every path uses

template <class T>
inline T load(const void *from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

inline uint16_t to_bf16(float value) {
    uint32_t bits = load<uint32_t>(&value);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;  // the canonical NaN
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float from_bf16(uint16_t bits) {
    uint32_t word = uint32_t(bits) << 16;
    return load<float>(&word);
}

// 1 / 9!, ... 1 / 0!: exp between -ln(2) / 2 and ln(2) / 2.
constexpr double kExpTerms[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                                1.0 / 24,     1.0 / 6,     0.5,        1.0,       1.0};
constexpr int kExpCount = 10;

constexpr float kSmallestNormal = std::numeric_limits<float>::min();

inline float flush(float value) {
    return std::fabs(value) < kSmallestNormal ? std::copysign(0.0f, value) : value;
}

// fp32 sums as everywhere here: subnormal results become zero; int32 ones wrap.
inline float plus(float a, float b) { return flush(a + b); }
inline int32_t plus(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }

// Finished sums of one row of x and one strip into y.
inline void put(const Product &p, int64_t outputs, int64_t row, int64_t strip, const float *sums) {
    const int64_t first = strip * kStripOutputs;
    const int count = int(std::min<int64_t>(kStripOutputs, outputs - first));
    float with_bias[kStripOutputs];
    if (p.bias) {
        for (int n = 0; n < count; n++) with_bias[n] = sums[n] + p.bias[first + n];
        sums = with_bias;
    }
    if (p.gated) {
        std::memcpy(p.halves + row * outputs + first, sums, 4 * count);
    } else if (p.y_bf16) {
        uint16_t *y = static_cast<uint16_t *>(p.y) + row * p.y_pitch + first;
        for (int n = 0; n < count; n++) y[n] = to_bf16(sums[n]);
    } else {
        std::memcpy(static_cast<float *>(p.y) + row * p.y_pitch + first, sums, 4 * count);
    }
}

inline void put(const Product &p, int64_t outputs, int64_t row, int64_t strip,
                const int32_t *sums) {
    const int64_t first = strip * kStripOutputs;
    const int count = int(std::min<int64_t>(kStripOutputs, outputs - first));
    if (p.scales) {
        float values[kStripOutputs];
        for (int n = 0; n < count; n++)
            values[n] = float(sums[n]) * (p.x_steps[row] * p.scales[first + n]);
        return put(p, outputs, row, strip, values);
    }
    std::memcpy(static_cast<int32_t *>(p.y) + row * p.y_pitch + first, sums, 4 * count);
}

}  // namespace tilewright

// --- what Python calls and other files call too

extern "C" {
void tw_multiply(const tilewright::Call *call);
void tw_norm(const uint16_t *x, const uint16_t *weight, uint16_t *y, int64_t rows, int64_t length,
             float epsilon, int32_t threads);
void tw_rotate(uint16_t *x, const uint16_t *cosines, const uint16_t *sines, int64_t rows,
               int64_t tokens, int64_t queries, int64_t keys, int64_t dim, int64_t pitch,
               uint16_t *key_room, uint16_t *value_room, int64_t room, int64_t position,
               int32_t threads);
void tw_add(const uint16_t *x, const uint16_t *more, uint16_t *y, int64_t count, int32_t threads);
}
