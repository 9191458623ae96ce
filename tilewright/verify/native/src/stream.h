// Both ends of a valid/ready stream.
//
// A cycle has two halves for the host: `sample` sees the signals as they are before the clock
// rises, and `drive`, when it has risen, sets the host's own for the cycle that begins.

#pragma once

#include <cstdint>
#include <deque>

#include "bits.h"
#include "chance.h"
#include "verilated.h"

// The wires of one stream.
template <class T>
struct Port {
    using Payload = T;
    CData& valid;
    CData& ready;
    Payload& payload;
};

// Takes what an output of the accelerator gives; with `stall`, the probability, not in every cycle.
template <class Payload>
class Sink {
public:
    Sink(Port<Payload> port, double stall, Chance& chance)
        : port_(port), stall_(stall), chance_(chance) {
        port_.ready = 0;
    }

    // What was given in this cycle, or null.
    const Payload* sample() const { return taking_ && port_.valid ? &port_.payload : nullptr; }

    void drive() { port_.ready = taking_ = !chance_.happens(stall_); }

private:
    Port<Payload> port_;
    double stall_;
    Chance& chance_;
    bool taking_ = false;
};

// Offers words to an input of the accelerator, each from the cycle in which it is due until it is
// taken. Words go in order; with `any_order`, one of those that are due is drawn.
template <class Payload>
class Source {
public:
    Source(Port<Payload> port, bool any_order, Chance& chance)
        : port_(port), any_order_(any_order), chance_(chance) {
        port_.valid = 0;
        port_.payload = Payload{};
    }

    void send(const Payload& word, uint64_t due) { waiting_.push_back({due, word}); }

    bool idle() const { return waiting_.empty() && !port_.valid; }

    // The word that was taken in this cycle, or null.
    const Payload* sample() {
        taken_ = port_.valid && port_.ready;
        return taken_ ? &port_.payload : nullptr;
    }

    // `cycle` is the one that begins; without `may_offer` no new word is offered in it.
    void drive(uint64_t cycle, bool may_offer = true) {
        if (port_.valid && !taken_) return;
        const auto word = may_offer ? find_due(cycle) : waiting_.end();
        port_.valid = word != waiting_.end();
        if (!port_.valid) return;
        port_.payload = word->payload;
        waiting_.erase(word);
    }

private:
    struct Word {
        uint64_t due;
        Payload payload;
    };

    typename std::deque<Word>::iterator find_due(uint64_t cycle) {
        const auto is_due = [cycle](const Word& word) { return word.due <= cycle; };
        uint64_t chosen = 0;
        if (any_order_) {
            uint64_t count = 0;
            for (const Word& word : waiting_) count += is_due(word);
            if (count) chosen = chance_.below(count);
        }
        for (auto word = waiting_.begin(); word != waiting_.end(); ++word) {
            if (is_due(*word) && chosen-- == 0) return word;
            if (!any_order_) break;  // all behind it are due later
        }
        return waiting_.end();
    }

    Port<Payload> port_;
    bool any_order_, taken_ = false;
    Chance& chance_;
    std::deque<Word> waiting_;
};
