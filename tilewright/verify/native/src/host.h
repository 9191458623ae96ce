// What a program on the host does: writes and reads registers, starts programs, waits for them.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "clock.h"
#include "machine.h"
#include "verdict.h"

struct Limits {
    uint64_t cycles = 20'000'000;   // of one program
    uint64_t patience = 4'000'000;  // in which neither memory nor status move
};

// How a program ended.
struct Ending {
    uint64_t error, instruction, events;
    std::array<uint64_t, COUNTERS> counters;
};

class Host {
public:
    Host(Clock& clock, Limits limits) : clock_(clock), limits_(limits) {}

    // A program in the instruction memory: 16 bytes an instruction, low half first.
    Ending run_words(const std::vector<uint64_t>& halves) {
        for (size_t k = 0; k < halves.size(); ++k) write(INSTRUCTION_BASE + 8 * k, halves[k]);
        return run(0, 0);
    }

    // A program that lies in external memory from `line` on.
    Ending run_stream(uint64_t line) { return run(1, line); }

    void write(uint64_t address, uint64_t value) { access(address, 1, value); }
    uint64_t read(uint64_t address) { return access(address, 0, 0); }

private:
    // A host that always asks for the status would be most of the simulation.
    static constexpr uint64_t PAUSE = 200;

    Ending run(uint64_t stream, uint64_t line) {
        uint64_t control = 0;
        put(control, CONTROL_START, 1);
        put(control, CONTROL_STREAM, stream);
        put(control, CONTROL_LINE, line);
        write(CONTROL, control);
        const uint64_t status = wait();
        Ending ending{get(status, STATUS_ERROR), get(status, STATUS_INSTRUCTION), read(EVENTS), {}};
        for (int k = 0; k < COUNTERS; ++k) ending.counters[k] = read(COUNTER_BASE + 8 * k);
        return ending;
    }

    // The status of a program that has ended.
    uint64_t wait() {
        const uint64_t end = clock_.cycle() + limits_.cycles;
        uint64_t before = 0, moved = clock_.cycle();
        while (true) {
            const uint64_t status = read(STATUS), now = clock_.cycle();
            if (get(status, STATUS_DONE)) return status;
            const std::string at =
                " cycles, at instruction " + std::to_string(get(status, STATUS_INSTRUCTION));
            if (now >= end)
                throw Verdict("still busy after " + std::to_string(limits_.cycles) + at);
            if (status != before || clock_.quiet() < PAUSE) moved = now;
            if (now - moved >= limits_.patience)
                throw Verdict("nothing moved for " + std::to_string(limits_.patience) + at);
            before = status;
            while (clock_.cycle() < now + PAUSE) clock_.tick();
        }
    }

    uint64_t access(uint64_t address, uint64_t is_write, uint64_t value) {
        MmioRequestPayload request{};
        put(request, MMIO_REQUEST_ADDRESS, address);
        put(request, MMIO_REQUEST_WRITE, is_write);
        put(request, MMIO_REQUEST_DATA, value);
        clock_.requests.send(request, clock_.cycle());
        MmioResponsePayload answer;
        for (int k = 0; !clock_.tick(&answer); ++k)
            if (k == 10'000) throw Verdict("the registers do not answer");
        if (get(answer, MMIO_RESPONSE_ERROR))
            throw Verdict("register " + std::to_string(address) + " refused");
        return get(answer, MMIO_RESPONSE_DATA);
    }

    Clock& clock_;
    Limits limits_;
};
