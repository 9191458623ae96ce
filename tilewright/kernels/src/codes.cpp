// bf16 weights to the codes and scales of a scheme of DECA, and these to packed bytes.
//
// The specification is golden/deca/quantise.py and coding.py, and golden/sparamx/coded.py for the
// layout of the look-up kernels. Elements of a tile are 16 outputs of 32 inputs, row by row.

#include <vector>

#include "kernels.h"

namespace tilewright {
namespace {

constexpr int kElements = 512, kInputs = 32;
constexpr uint16_t kSmallestNormalBf16 = 0x0080, kLargestBf16 = 0x7f7f;
enum DecaScale : int32_t { kNoScale = 0, kE8m0 = 1 };  // else bf16

// `value` to the nearest bf16, ties to even, kept within its positive normal numbers.
uint16_t normal_bf16(double value) {
    const uint64_t bits = load<uint64_t>(&value);
    constexpr int kDropped = 52 - 7;
    const uint64_t odd = bits >> kDropped & 1;
    const int64_t rounded = int64_t((bits + (uint64_t(1) << (kDropped - 1)) - 1 + odd) >> kDropped);
    const int64_t pattern = rounded - (int64_t(1023 - 127) << 7);  // with the exponent of bf16
    return uint16_t(std::clamp<int64_t>(pattern, kSmallestNormalBf16, kLargestBf16));
}

}  // namespace

// How a scheme quantises: plain C, as Python fills it in.
struct Coder {
    int32_t scale, group, sparse;
    int32_t reach_exponent;  // of the magnitude that an e8m0 scale maps the largest weight to
    double reach;
    // By the upper half of a float32: from `threshold` on the code is `upper`, below it `lower`.
    const float *threshold;
    const uint8_t *upper, *lower;
};

namespace {

struct CodeTask final : Task {
    Coder coder;
    const uint16_t *weights;
    int64_t outputs, inputs, strips, along;
    uint8_t *codes, *masks, *scales;  // of each tile: 512, 64, and a scale of each group
    int64_t *nonzeros;                // stored codes of each tile
    uint8_t *used;                    // of each thread: 256 flags, and one of weights without value

    void run(int thread, int team) const override {
        uint8_t *flags = used + thread * (kPatterns + 1);
        for (int64_t s = strips * thread / team; s < strips * (thread + 1) / team; s++)
            for (int64_t t = 0; t < along; t++) tile(s, t, flags);
    }

    static constexpr int kPatterns = 256;

    void tile(int64_t strip, int64_t t, uint8_t *flags) const {
        const int64_t index = strip * along + t, groups = kElements / std::max(coder.group, 1);
        uint8_t *out = codes + index * kElements;
        float row[kInputs];
        int64_t count = 0;
        for (int r = 0; r < kStripOutputs; r++, out += kInputs) {
            const int64_t output = strip * kStripOutputs + r;
            const int64_t there =
                output < outputs ? std::min<int64_t>(kInputs, inputs - t * kInputs) : 0;
            const uint16_t *from = weights + output * inputs + t * kInputs;
            uint32_t kept = 0;
            for (int k = 0; k < kInputs; k++) {
                const uint16_t bits = k < there ? from[k] : 0;
                flags[kPatterns] |= (bits & 0x7f80) == 0x7f80;
                kept |= uint32_t((bits & 0x7fff) != 0) << k;
                row[k] = from_bf16(bits);
            }
            if (coder.scale != kNoScale)
                for (int g = 0; g < kInputs; g += coder.group)
                    divide(row + g, index * groups + (r * kInputs + g) / coder.group);
            if (!coder.sparse) kept = ~uint32_t(0);
            for (int k = 0; k < kInputs; k++) {
                const uint32_t half = load<uint32_t>(row + k) >> 16;
                const bool above = row[k] >= coder.threshold[half];
                const uint8_t code = above ? coder.upper[half] : coder.lower[half];
                const bool stored = kept >> k & 1;
                out[k] = stored ? code : 0;
                if (stored) flags[code] = 1;
            }
            if (coder.sparse) std::memcpy(masks + index * kMaskBytes + r * 4, &kept, 4);
            count += __builtin_popcount(kept);
        }
        nonzeros[index] = count;
    }

    // A group over its scale, which becomes number `place` of all.
    void divide(float *group, int64_t place) const {
        float largest = 0;
        for (int k = 0; k < coder.group; k++) largest = std::max(largest, std::fabs(group[k]));
        float divisor;
        if (coder.scale == kE8m0) {
            int exponent;
            std::frexp(largest, &exponent);
            const int power = largest > 0 ? exponent - 1 - coder.reach_exponent : -127;
            scales[place] = uint8_t(std::clamp(power + 127, 0, 254));
            divisor = std::ldexp(1.0f, scales[place] - 127);
        } else {
            const uint16_t bits = normal_bf16(double(largest) / coder.reach);
            std::memcpy(scales + 2 * place, &bits, 2);
            divisor = from_bf16(bits);
        }
        for (int k = 0; k < coder.group; k++) group[k] /= divisor;
    }
};

// Codes as DECA stores them: `bits` each without gaps, of every tile from a byte on.
struct DecaTask final : Task {
    const uint8_t *codes, *masks;
    int64_t tiles;
    int32_t bits;
    const int64_t *starts;
    uint8_t *data;

    void run(int thread, int team) const override {
        for (int64_t t = tiles * thread / team; t < tiles * (thread + 1) / team; t++) {
            uint8_t *to = data + starts[t];
            uint32_t word = 0;
            int filled = 0;
            for (int k = 0; k < kElements; k++) {
                if (masks && !(masks[t * kMaskBytes + k / 8] >> k % 8 & 1)) continue;
                word |= uint32_t(codes[t * kElements + k]) << filled;
                for (filled += bits; filled >= 8; filled -= 8, word >>= 8) *to++ = uint8_t(word);
            }
            if (filled) *to = uint8_t(word);
        }
    }
};

// The records of the look-up kernels: bitmap, scales, codes under their new names.
struct RecordTask final : Task {
    const uint8_t *codes, *masks, *scales;  // of dense tiles, and without scales, null
    const uint8_t *names;                   // of 8-bit codes; null where they have 4
    int64_t tiles, scale_bytes;
    const int64_t *starts;
    uint8_t *stream;
    uint16_t slots[kElements], rows[kElements];  // element in each byte of codes; by processor's row

    RecordTask() {
        for (int e = 0; e < kElements; e++) {  // row e / 32 has pairs of inputs of all outputs
            const int row = e / 32, output = e % 32 / 2;
            rows[e] = uint16_t(output * kInputs + 2 * row + e % 2);
        }
        for (int j = 0; j < kElements; j++) {  // eight words of a row, then eight of the next one
            const int pair = j / 64, lane = j / 16 % 4, odd = j / 8 % 2, word = j % 8;
            slots[j] = rows[(2 * pair + odd) * 32 + 8 * lane + word];
        }
    }

    void run(int thread, int team) const override {
        for (int64_t t = tiles * thread / team; t < tiles * (thread + 1) / team; t++) record(t);
    }

    void record(int64_t t) const {
        const uint8_t *from = codes + t * kElements;
        uint8_t *to = stream + starts[t];
        uint8_t kept[kElements];
        int count = 0;
        if (masks) {
            const uint8_t *mask = masks + t * kMaskBytes;
            for (int j = 0; j < kElements; j++) {
                const int e = slots[j];
                const int stored = mask[e / 8] >> e % 8 & 1;
                to[j / 8] = uint8_t((j % 8 ? to[j / 8] : 0) | stored << j % 8);
                if (stored) kept[count++] = from[e];
            }
            to += kMaskBytes;
        }
        if (scales) {
            std::memcpy(to, scales + t * scale_bytes, scale_bytes);
            to += scale_bytes;
        }
        if (masks && names) {
            for (int k = 0; k < count; k++) to[k] = names[kept[k]];
        } else if (masks) {  // each half is a run of codes again
            const int half = (count + 1) / 2;
            for (int k = 0; k < half; k++)
                to[k] = uint8_t(kept[k] | (half + k < count ? kept[half + k] << 4 : 0));
        } else if (names) {
            for (int j = 0; j < kElements; j++) to[j] = names[from[slots[j]]];
        } else {  // words of four codes, of four rows
            for (int w = 0; w < kElements / 4; w++) {
                const uint16_t *row = rows + w / 32 * 128 + w % 32;
                to[2 * w] = uint8_t(from[row[0]] | from[row[32]] << 4);
                to[2 * w + 1] = uint8_t(from[row[64]] | from[row[96]] << 4);
            }
        }
    }
};

}  // namespace
}  // namespace tilewright

using namespace tilewright;

// Codes, masks, scales and numbers of stored codes of all tiles, and which codes occur (256 flags).
// Returns whether all weights are finite.
extern "C" int32_t tw_code(const Coder *coder, const uint16_t *weights, int64_t outputs,
                           int64_t inputs, uint8_t *codes, uint8_t *masks, uint8_t *scales,
                           int64_t *nonzeros, uint8_t *used, int32_t threads) {
    std::vector<uint8_t> flags(size_t(threads) * (CodeTask::kPatterns + 1));
    CodeTask task;
    task.coder = *coder, task.weights = weights, task.outputs = outputs, task.inputs = inputs;
    task.strips = (outputs + kStripOutputs - 1) / kStripOutputs;
    task.along = (inputs + kInputs - 1) / kInputs;
    task.codes = codes, task.masks = masks, task.scales = scales;
    task.nonzeros = nonzeros, task.used = flags.data();
    run_in_pool(threads, task);
    int32_t finite = 1;
    for (size_t i = 0; i < flags.size(); i++) {
        const size_t code = i % (CodeTask::kPatterns + 1);
        if (code == CodeTask::kPatterns)
            finite &= !flags[i];
        else
            used[code] |= flags[i];
    }
    return finite;
}

extern "C" void tw_pack_codes(const uint8_t *codes, const uint8_t *masks, int64_t tiles,
                              int32_t bits, const int64_t *starts, uint8_t *data,
                              int32_t threads) {
    DecaTask task;
    task.codes = codes, task.masks = masks, task.tiles = tiles, task.bits = bits;
    task.starts = starts, task.data = data;
    run_in_pool(threads, task);
}

extern "C" void tw_pack_records(const uint8_t *codes, const uint8_t *masks, const uint8_t *scales,
                                const uint8_t *names, int64_t tiles, int64_t scale_bytes,
                                const int64_t *starts, uint8_t *stream, int32_t threads) {
    RecordTask task;
    task.codes = codes, task.masks = masks, task.scales = scales, task.names = names;
    task.tiles = tiles, task.scale_bytes = scale_bytes, task.starts = starts, task.stream = stream;
    run_in_pool(threads, task);
}
