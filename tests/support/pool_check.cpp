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

#include "../../tilewright/kernels/src/step.h"

using namespace tilewright;

extern "C" {
int32_t tw_join_openmp();
int64_t tw_pack(int32_t, int32_t, int32_t, const uint8_t *, int64_t, int64_t, int64_t, int64_t,
                int64_t, uint8_t *, int64_t *, const int64_t *, uint8_t *, int32_t);
void tw_prune(uint16_t *, int64_t, int64_t, int32_t);
void tw_count_segments(const uint8_t *, int64_t, int64_t, int64_t, int64_t, int64_t *, int32_t);
void tw_token(const void *);
}

namespace {

void require(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "failed: %s\n", what);
    std::exit(1);
}

struct Layer {
    const int64_t inputs, outputs, strips = outputs / 16, tiles = (inputs + 31) / 32;
    const int64_t segments_of_strip = (tiles + kSegmentTiles - 1) / kSegmentTiles;
    std::vector<uint16_t> weights = std::vector<uint16_t>(inputs * outputs);
    std::vector<uint8_t> metadata = std::vector<uint8_t>(strips * tiles * 64);
    std::vector<int64_t> counts = std::vector<int64_t>(strips);
    std::vector<int64_t> starts = std::vector<int64_t>(strips + 1);
    std::vector<int64_t> segments = std::vector<int64_t>(strips * segments_of_strip + 1);
    std::vector<uint8_t> values;
    Weights packed{};

    Layer(int threads, int64_t all_inputs, int64_t all_outputs)
        : inputs(all_inputs), outputs(all_outputs) {
        for (size_t i = 0; i < weights.size(); i++) weights[i] = uint16_t(0x3c00 + i * 7919 % 1024);
        tw_prune(weights.data(), int64_t(weights.size()), int64_t(weights.size()) / 2, threads);
        const auto *bytes = reinterpret_cast<const uint8_t *>(weights.data());
        const auto pack = [&](const int64_t *from, uint8_t *to) {
            return tw_pack(kBf16, 1, 0, bytes, 2 * inputs, outputs, inputs, strips, tiles,
                           metadata.data(), counts.data(), from, to, threads);
        };
        require(pack(nullptr, nullptr) == -1, "weights are numbers");
        for (int64_t s = 0; s < strips; s++) starts[s + 1] = starts[s] + counts[s];
        values.resize(2 * starts[strips] + 64);
        pack(starts.data(), values.data());
        tw_count_segments(metadata.data(), 64, strips, tiles, kSegmentTiles, &segments[1], threads);
        for (size_t k = 1; k < segments.size(); k++) segments[k] += segments[k - 1];
        require(segments.back() == starts.back(), "segments have all values");
        packed.element = kBf16, packed.sparse = 1, packed.outputs = outputs;
        packed.inputs = inputs, packed.strips = strips, packed.tiles = tiles;
        packed.metadata = metadata.data(), packed.values = values.data();
        packed.strip_starts = starts.data(), packed.segment_starts = segments.data();
    }

    Product product(bool gated) const {
        Product made{};
        made.weights = &packed;
        made.x_pitch = 2 * inputs, made.y_pitch = outputs / (gated ? 2 : 1);
        made.y_bf16 = 1, made.gated = gated;
        return made;
    }

    std::vector<int64_t> bounds(int threads) const {
        std::vector<int64_t> found(threads + 1);
        for (int t = 0; t <= threads; t++) found[t] = strips * t / threads;
        return found;
    }

    std::vector<uint16_t> multiply(int threads, int64_t batch, Order order, bool gated) const {
        Product product = this->product(gated);
        std::vector<uint16_t> x(batch * inputs), y(batch * product.y_pitch);
        for (size_t i = 0; i < x.size(); i++) x[i] = uint16_t(0x3f80 + i % 64);
        product.x = reinterpret_cast<const uint8_t *>(x.data());
        product.batch = batch, product.y = y.data();
        const std::vector<int64_t> parts = bounds(threads);
        const Call call{&product, 1, parts.data(), threads, kPortable, order};
        tw_multiply(&call);
        return y;
    }
};

// Decoder layers, all with the same weights, and what a token leaves behind.
struct Decoder {
    static constexpr int64_t kWidth = 64, kInner = 48, kQueries = 4, kKeys = 2, kDim = 16;
    static constexpr int64_t kRoom = 6, kBefore = 3, kLayers = 3;
    const Layer qkv{1, kWidth, (kQueries + 2 * kKeys) * kDim}, out{1, kQueries * kDim, kWidth};
    const Layer gate_up{1, kWidth, 2 * kInner}, down{1, kInner, kWidth};

    // Hidden states, keys and values.
    std::vector<uint16_t> token(int threads, int64_t rows, int tokens) const {
        const std::vector<uint16_t> norm(kWidth, 0x3f80);
        const std::vector<uint16_t> angles(rows * kDim, 0x3f00);
        std::vector<uint16_t> result(rows * kWidth);
        for (size_t i = 0; i < result.size(); i++) result[i] = uint16_t(0x3f80 + i % 64);
        const int64_t count = rows * kKeys * kRoom * kDim;
        std::vector<std::vector<uint16_t>> rooms(2 * kLayers, std::vector<uint16_t>(count, 0x3d00));
        const Layer *layers[] = {&qkv, &out, &gate_up, &down};
        std::vector<int64_t> bounds[kPlaces];
        for (int place = 0; place < kPlaces; place++) bounds[place] = layers[place]->bounds(threads);
        std::vector<Step> steps(kLayers);
        for (int64_t k = 0; k < kLayers; k++) {
            Step &s = steps[k];
            s = Step{};
            for (int place = 0; place < kPlaces; place++) {
                s.layers[place] = layers[place]->product(place == kGateUp);
                s.bounds[place] = bounds[place].data();
                s.orders[place] = rows < 3 ? kVectorOrder : kTileOrder;
            }
            s.threads = threads, s.rows = rows, s.width = kWidth, s.path = kPortable;
            s.first_norm = s.second_norm = norm.data();
            s.queries = kQueries, s.keys = kKeys, s.dim = kDim, s.room = kRoom;
            s.key_room = rooms[2 * k].data(), s.value_room = rooms[2 * k + 1].data();
            s.scale = 0.25;
        }
        struct {
            const Step *steps;
            int64_t count;
            const uint16_t *hidden, *cosines, *sines;
            uint16_t *result;
            int64_t position;
            double *spent;
        } call{};
        for (int64_t k = 0; k < tokens; k++) {
            const std::vector<uint16_t> hidden = result;
            double spent[5] = {};
            call = {steps.data(), kLayers, hidden.data(), angles.data(), angles.data(),
                    result.data(), kBefore + k, k ? spent : nullptr};
            tw_token(&call);
        }
        for (const auto &room : rooms) result.insert(result.end(), room.begin(), room.end());
        return result;
    }
};

void work() {
    const Layer layer(3, 2080, 32), same(1, 2080, 32);  // three segments, the last one ragged
    require(layer.weights == same.weights && layer.values == same.values, "packing");
    for (const Order order : {kVectorOrder, kTileOrder})
        for (const int64_t batch : {1, 3})
            for (const bool gated : {false, true}) {
                const auto expected = layer.multiply(1, batch, order, gated);
                for (const int threads : {2, 7, 4})
                    require(layer.multiply(threads, batch, order, gated) == expected, "products");
            }
    const Decoder decoder;
    for (const int64_t rows : {1, 2, 3, 5}) {
        const auto expected = decoder.token(1, rows, 3);
        for (const int threads : {2, 3, 7})
            require(decoder.token(threads, rows, 3) == expected, "tokens");
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
