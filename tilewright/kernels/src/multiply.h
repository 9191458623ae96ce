// One multiplication divided among the threads of a team, for a call of its own and for a team that
// goes through all layers of a model.
#pragma once

#include <atomic>
#include <vector>

#include "kernels.h"

namespace tilewright {

// One of the three: strips are computed as wholes, by segments that are added up afterwards, or as
// pairs.
struct Kernel {
    StripKernel strip = nullptr;
    SegmentKernel segment = nullptr;
    PairKernel pair = nullptr;
};

// How a kernel wants its activations.
enum class Layout {
    kRows,        // as they come: whole tiles already
    kPaddedRows,  // rows padded to whole tiles
    kShifted,     // the same, int8 moved to uint8 by + 128
    kTiles,       // first operand of a tile multiplication: blocks of 16 rows, tile after tile
    kPairs,       // second operand: the same with pairs of inputs side by side for the 16 rows
};

// Activations laid out anew, by all threads together.
class Activations {
  public:
    // Room for the new layout; the product will point at it. Returns whether there is work.
    bool start(Product &p, Kernel kernel);

    // Before `fill`, where many rows are to be quantised: what 1 stands for in each. Of few rows
    // every thread finds that out for itself, which takes no longer than waiting for another one.
    void measure(int thread, int team, const uint8_t *x) const;
    bool measured_first() const {
        return layout_ != Layout::kRows && quantised_ && batch_ > kFewRows;
    }

    // The share of one thread: some tiles of all rows of `x`.
    void fill(int thread, int team, const uint8_t *x) const;

    const uint8_t *from() const { return from_; }

  private:
    static constexpr int64_t kFewRows = 2;
    float step_of(const uint8_t *x, int64_t row) const;
    void put(int64_t row, int64_t t, uint8_t *piece) const;

    Layout layout_ = Layout::kRows;
    const uint8_t *from_ = nullptr;
    uint8_t *to_ = nullptr;
    int64_t from_pitch_ = 0, batch_ = 0, tiles_ = 0, bytes_ = 0;
    bool quantised_ = false;
    std::vector<uint8_t> memory_;
    mutable std::vector<float> steps_;
};

// One product, in parts that threads take one by one.
struct Job {
    Product product;
    Kernel kernel;
    Activations activations;
    int64_t segments;    // of a strip; 1 where strips are computed as wholes
    int64_t first_part;  // of all products, in one list
    int64_t first_strip;
    int64_t first_sums;  // by segments: of rows of sums, batch of them for each part
    int64_t chunk;       // by pairs: rows of a part
    std::vector<float> halves;  // of a gated product

    int64_t parts() const { return part_of(strips_of(product)) * chunks(); }
    int64_t chunks() const { return kernel.pair ? (product.batch + chunk - 1) / chunk : 1; }

    // The part that a strip begins, or is the second one of.
    int64_t part_of(int64_t strip) const {
        return kernel.pair ? (strip + 1) / 2 : strip * segments;
    }
};

// Lines of their own: processors fetch them in pairs.
struct alignas(128) Counter {
    std::atomic<int64_t> value{0};
};

struct alignas(kRowBytes) Sums {
    uint8_t bytes[4 * kStripOutputs];
};

// Bytes that follow each other in memory.
struct Range {
    const char *first = nullptr, *last = nullptr;
};

// Parts of all products in one list, cut at `bounds`. A thread takes its own parts one by one,
// then those that others have not come to: a processor that was taken away for a moment, or that
// is slower, holds nobody up.
class MultiplyTask final : public Task {
  public:
    void prepare(const Product *products, int64_t number, const int64_t *strip_bounds,
                 int thread_count, Path path, Order order);

    void run(int thread, int team) const override { run_with(thread, team, nullptr); }

    // The same with the first product's activations in memory of this thread's own; every thread
    // of the team has the same there.
    void run_with(int thread, int team, const uint8_t *x) const;

    // What a thread will read first: values or records, and the bitmap where there is one.
    void first_reads(int thread, int64_t bytes, Range (&ranges)[2]) const;

  private:
    void meet(int arrivals) const;
    int64_t part_of(int64_t strip) const;
    int64_t first_of(int thread) const;
    void multiply_pair(const Job &job, int64_t part) const;
    void multiply(int64_t part, const uint8_t *x) const;
    void pass_gate(const Job &job, int64_t strip) const;
    template <class Sum>
    void add_up(const Job &job, int64_t strip) const;

    std::vector<Job> jobs_;
    bool new_layout_ = false;          // of activations
    bool measured_ = false;            // some of them, before they are laid out
    int64_t count_ = 0;                // of products
    const int64_t *bounds_ = nullptr;  // strips
    int threads_ = 0;
    mutable std::atomic<int> waiting_{0};
    mutable std::vector<Counter> next_;   // of each thread's parts
    mutable std::vector<Counter> done_;   // segments of each strip; 0 between calls
    mutable std::vector<Counter> pairs_;  // strips of each pair of a gated product, likewise
    mutable std::vector<Sums> sums_;
};

// For trials and tests: the number of rows from which on AMX takes strips by pairs, 0: as measured;
// and the bytes of activations that it goes through with one pair after the other.
void set_rows_for_pairs(int64_t rows);
void set_bytes_for_pairs(int64_t bytes);

}  // namespace tilewright
