// One token of a decoder layer of LLaMA's kind, as Python describes it, and clocks of its parts.
#pragma once

#include <chrono>
#include <vector>

#include "kernels.h"

namespace tilewright {

// Parts that clocks tell apart.
enum Part { kNorms, kLinear, kPositions, kSums, kAttention };

enum Place { kQkv, kOut, kGateUp, kDown, kPlaces };  // of a linear layer

struct Step {
    Product layers[kPlaces];          // without x, y and batch
    const int64_t *bounds[kPlaces];   // of each, for `threads`
    int32_t orders[kPlaces];
    int32_t threads, path;
    int64_t rows, width;  // sequences of one token each, and the features of a hidden state
    const uint16_t *hidden, *first_norm, *second_norm;
    float first_epsilon, second_epsilon;
    const uint16_t *cosines, *sines;
    int64_t queries, keys, dim;          // heads, and the features of one
    uint16_t *key_room, *value_room;     // null: keys and values stay in `joined`
    int64_t room, position;
    uint16_t *joined;                    // queries, keys and values of every sequence
    const uint16_t *mixed;               // what attention made of them
    uint16_t *result;
    double *spent;  // seconds of each part, added up; may be null
    double scale;   // of scores

    // A layer with its operands.
    Product product(Place place, const uint16_t *x, uint16_t *y) const {
        Product made = layers[place];
        made.x = reinterpret_cast<const uint8_t *>(x), made.y = y, made.batch = rows;
        return made;
    }
    int64_t heads() const { return queries + 2 * keys; }
};

class Clock {
  public:
    explicit Clock(double *spent) : spent_(spent) {
        if (spent_) last_ = now();
    }
    void end_of(Part part) {
        if (!spent_) return;
        const double time = now();
        spent_[part] += time - last_;
        last_ = time;
    }

  private:
    static double now() {
        using Seconds = std::chrono::duration<double>;
        return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    }
    double *spent_, last_ = 0;
};

// Memory of a call, kept for the next one.
inline uint16_t *room_for(std::vector<uint16_t> &memory, int64_t count) {
    if (int64_t(memory.size()) < count) memory.resize(count);
    return memory.data();
}

}  // namespace tilewright
