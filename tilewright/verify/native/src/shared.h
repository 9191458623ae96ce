// One copy of a module that is translated once for all of them.
//
// A copy that gets the inputs of the cycle before, and whose state did not change then, stays as
// it is: a unit that is idle costs a comparison.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "svdpi.h"

// Evaluations so far of copies that do not rest. A copy in which others are rests when they do;
// its own evaluation calls them, in the same thread.
inline thread_local uint64_t evaluations = 0;

// Sets an input port; whether it had the same value before.
template <class Port>
bool take(Port& port, const svBitVecVal* in) {
    if (std::memcmp(&port, in, sizeof port) == 0) return true;
    std::memcpy(&port, in, sizeof port);
    return false;
}

template <class Port>
void give(const Port& port, svBitVecVal* out) {
    if constexpr (sizeof port < sizeof *out) *out = 0;
    std::memcpy(out, &port, sizeof port);
}

template <class Model, class Root>
class Shared {
public:
    Model& model() { return model_; }

    // A rising edge, with inputs that are set; `same` says that they are those of the edge before.
    // Whether outputs may have changed.
    bool rise(bool same) {
        if (!same) {
            rests_ = false;
            wait_ = patience_;
        }
        if (rests_) return false;
        ++evaluations;
        if (!same || --wait_ > 0) {
            step();
            return true;
        }
        rests_ = changes_nothing();
        patience_ = rests_ ? 1 : std::min(2 * patience_, LONGEST);
        wait_ = patience_;
        return !rests_;
    }

private:
    // What changes in the state of a model with every edge: the clock, and its value before.
    static constexpr size_t CLOCK_BYTES = 2, BLOCK = 256;
    // Cycles between two looks at the state of a copy that goes on with the same inputs.
    static constexpr int LONGEST = 16;

    // One cycle; whether the state is what it was.
    bool changes_nothing() {
        const auto* state = reinterpret_cast<const uint8_t*>(model_.rootp);
        before_.assign(state, state + sizeof(Root));
        const uint64_t others = evaluations;
        step();
        if (evaluations != others) return false;
        size_t changed = 0;
        for (size_t at = 0; at < sizeof(Root) && changed <= CLOCK_BYTES; at += BLOCK) {
            const size_t end = std::min(at + BLOCK, sizeof(Root));
            if (std::memcmp(&before_[at], state + at, end - at) == 0) continue;
            for (size_t k = at; k < end; ++k) changed += before_[k] != state[k];
        }
        return changed == CLOCK_BYTES;
    }

    // The model takes both edges of its clock: one evaluation is a cycle.
    void step() {
        model_.clk = !model_.clk;
        model_.eval();
    }

    Model model_;
    bool rests_ = false;
    int patience_ = 1, wait_ = 1;
    std::vector<uint8_t> before_;
};
