// The clock, and the memory and the registers' port that move with it.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>

#include "Vtop.h"
#include "machine.h"
#include "memory.h"
#include "stream.h"

class Clock {
public:
    Clock(Vtop& top, Ports& ports, Memory& memory, Chance& chance, double stall, bool shows)
        : top_(top),
          ports_(ports),
          memory_(memory),
          shows_(shows),
          requests(ports.mmio_request, false, chance),
          answers(ports.mmio_response, stall, chance) {}

    uint64_t cycle() const { return cycle_; }

    // Cycles since the memory had anything to do.
    uint64_t quiet() const { return quiet_; }

    void reset() {
        ports_.clk = 0;
        ports_.rst = 1;
        top_.eval();
        for (int k = 0; k < 3; ++k) {
            rise();
            ports_.rst = k == 0;  // two edges with it, one without
            fall();
        }
    }

    // One cycle; the answer of the registers' port that came in it, if one did, is in `answer`.
    bool tick(MmioResponsePayload* answer = nullptr) {
        quiet_ = memory_.sample(cycle_) ? 0 : quiet_ + 1;
        if (const auto* request = requests.sample())
            if (get(*request, MMIO_REQUEST_WRITE) && get(*request, MMIO_REQUEST_ADDRESS) == CONTROL)
                memory_.begin(cycle_);
        const auto* word = answers.sample();
        if (word && answer) *answer = *word;
        rise();
        ++cycle_;
        memory_.drive(cycle_);
        requests.drive(cycle_);
        answers.drive();
        fall();
        if (shows_ && cycle_ % SHOW_CYCLES == 0) show();
        return word != nullptr;
    }

private:
    static constexpr uint64_t SHOW_CYCLES = 1 << 10;  // look at the time this often

    void rise() {
        ports_.clk = 1;
        top_.eval();
    }

    void fall() {
        ports_.clk = 0;
        top_.eval();
    }

    // The cycles so far, once a second.
    void show() {
        const auto now = std::chrono::steady_clock::now();
        if (now - shown_ < std::chrono::seconds(1)) return;
        shown_ = now;
        std::fprintf(stderr, "%llu\n", static_cast<unsigned long long>(cycle_));
        std::fflush(stderr);
    }

    Vtop& top_;
    Ports& ports_;
    Memory& memory_;
    bool shows_;
    uint64_t cycle_ = 0, quiet_ = 0;
    std::chrono::steady_clock::time_point shown_{};

public:
    Source<MmioRequestPayload> requests;
    Sink<MmioResponsePayload> answers;
};
