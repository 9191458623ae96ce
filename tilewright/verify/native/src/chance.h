// Seeded random choices, the same on every machine: the library's distributions are not.

#pragma once

#include <cstdint>
#include <random>

class Chance {
public:
    explicit Chance(uint64_t seed) : bits_(seed) {}

    // Whether something of this probability happens; one that is 0 draws nothing.
    bool happens(double probability) {
        return probability > 0 && static_cast<double>(bits_() >> 11) * 0x1p-53 < probability;
    }

    // A number below `end`.
    uint64_t below(uint64_t end) { return bits_() % end; }

private:
    std::mt19937_64 bits_;
};
