// Drives the pools and what runs on them, for builds with AddressSanitizer or ThreadSanitizer.
//
//     pool_check [LIBRARY]
//
// With a library, whose file is called libtorch_cpu.so and which depends on an OpenMP runtime, work
// is done by that runtime's threads, as beside PyTorch. Prints which pool it was.

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "../../tilewright/kernels/src/kernels.h"

using namespace tilewright;

extern "C" {
int32_t tw_join_openmp();
int64_t tw_pack(int32_t, int32_t, int32_t, const uint8_t *, int64_t, int64_t, int64_t, int64_t,
                int64_t, uint8_t *, int64_t *, const int64_t *, uint8_t *, int32_t *, int32_t);
void tw_prune(uint16_t *, int64_t, int64_t, int32_t);
void tw_count_segments(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int64_t *, int32_t);
}

namespace {

constexpr int64_t kInputs = 2080, kOutputs = 32;  // three segments, the last one ragged
constexpr int64_t kStrips = kOutputs / 16, kTiles = kInputs / 32, kSegments = 3;

void require(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
}

struct Layer {
    std::vector<uint16_t> weights = std::vector<uint16_t>(kInputs * kOutputs);
    std::vector<uint8_t> metadata = std::vector<uint8_t>(kStrips * kTiles * 64);
    std::vector<int64_t> counts = std::vector<int64_t>(kStrips);
    std::vector<int64_t> starts = std::vector<int64_t>(kStrips + 1);
    std::vector<int64_t> segments = std::vector<int64_t>(kStrips * kSegments + 1);
    std::vector<uint8_t> values;
    Weights packed{};

    explicit Layer(int threads) {
        for (size_t i = 0; i < weights.size(); i++) weights[i] = uint16_t(0x3c00 + i * 7919 % 1024);
        tw_prune(weights.data(), int64_t(weights.size()), int64_t(weights.size()) / 2, threads);
        const auto *bytes = reinterpret_cast<const uint8_t *>(weights.data());
        const auto pack = [&](const int64_t *from, uint8_t *to) {
            return tw_pack(kBf16, 1, 0, bytes, 2 * kInputs, kOutputs, kInputs, kStrips, kTiles,
                           metadata.data(), counts.data(), from, to, nullptr, threads);
        };
        require(pack(nullptr, nullptr) == -1, "weights are numbers");
        for (int64_t s = 0; s < kStrips; s++) starts[s + 1] = starts[s] + counts[s];
        values.resize(2 * starts[kStrips] + 64);
        pack(starts.data(), values.data());
        tw_count_segments(metadata.data(), 64, kStrips, kTiles, kSegmentTiles, &segments[1],
                          threads);
        for (size_t k = 1; k < segments.size(); k++) segments[k] += segments[k - 1];
        require(segments.back() == starts.back(), "segments have all values");
        packed.element = kBf16, packed.sparse = 1, packed.outputs = kOutputs;
        packed.inputs = kInputs, packed.strips = kStrips, packed.tiles = kTiles;
        packed.metadata = metadata.data(), packed.values = values.data();
        packed.strip_starts = starts.data(), packed.segment_starts = segments.data();
    }

    std::vector<uint16_t> multiply(int threads, int64_t batch, Order order, bool gated) const {
        std::vector<uint16_t> x(batch * kInputs), y(batch * kOutputs / (gated ? 2 : 1));
        for (size_t i = 0; i < x.size(); i++) x[i] = uint16_t(0x3f80 + i % 64);
        Product product{};
        product.weights = &packed;
        product.x = reinterpret_cast<const uint8_t *>(x.data());
        product.batch = batch, product.x_pitch = 2 * kInputs;
        product.y = y.data(), product.y_pitch = kOutputs / (gated ? 2 : 1);
        product.y_bf16 = 1, product.gated = gated;
        std::vector<int64_t> bounds(threads + 1);
        for (int t = 0; t <= threads; t++) bounds[t] = kStrips * t / threads;
        const Call call{&product, 1, bounds.data(), threads, kPortable, order};
        tw_multiply(&call);
        return y;
    }
};

void work() {
    const Layer layer(3), same(1);
    require(layer.weights == same.weights && layer.values == same.values, "packing");
    for (const Order order : {kVectorOrder, kTileOrder})
        for (const int64_t batch : {1, 3})
            for (const bool gated : {false, true}) {
                const auto expected = layer.multiply(1, batch, order, gated);
                for (const int threads : {2, 7, 4})
                    require(layer.multiply(threads, batch, order, gated) == expected, "products");
            }
    std::vector<uint16_t> x(64 * 1024, 0x3f80), weight(1024, 0x4000), y(x.size());
    tw_norm(x.data(), weight.data(), y.data(), 64, 1024, 0, 4);
    require(y == std::vector<uint16_t>(y.size(), 0x4000), "norms");
}

}  // namespace

int main(int count, char **arguments) {
    bool joined = false;
    if (count > 1) {
        require(dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) != nullptr, "the library loads");
        joined = tw_join_openmp();
        require(joined, "its OpenMP runtime is found");
    } else {
        require(!tw_join_openmp(), "there is no OpenMP runtime");
    }
    work();
    std::vector<std::thread> callers;  // two models at once
    for (int k = 0; k < 2; k++) callers.emplace_back(work);
    for (auto &caller : callers) caller.join();
#if !defined(__SANITIZE_THREAD__)  // which does not follow threads that start after a fork
    if (const pid_t child = fork(); child == 0) {
        work();
        _exit(0);
    } else {
        int status = 1;
        waitpid(child, &status, 0);
        require(status == 0, "a fork");
    }
#endif
    std::puts(joined ? "openmp" : "own");
}
