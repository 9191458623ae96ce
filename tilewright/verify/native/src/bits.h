// Fields of a port's payload.
//
// Verilator keeps a payload as an integer or as an array of 32-bit words. On a little-endian
// machine both are a string of bits in memory, bit 0 first; that is how they are read here.

#pragma once

#include <cstdint>
#include <cstring>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are read as strings of bits");

struct Field {
    int low, bits;
};

// A field of at most 64 bits.
template <class Payload>
uint64_t get(const Payload& payload, Field field) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&payload);
    uint64_t value = 0;
    for (int done = 0; done < field.bits;) {
        const int bit = field.low + done, shift = bit % 8;
        value |= static_cast<uint64_t>(bytes[bit / 8] >> shift) << done;
        done += 8 - shift;
    }
    return field.bits < 64 ? value & ((uint64_t{1} << field.bits) - 1) : value;
}

// Sets a field of at most 64 bits in a payload where it is zero.
template <class Payload>
void put(Payload& payload, Field field, uint64_t value) {
    auto* bytes = reinterpret_cast<uint8_t*>(&payload);
    for (int done = 0; done < field.bits;) {
        const int bit = field.low + done, shift = bit % 8;
        bytes[bit / 8] |= static_cast<uint8_t>((value >> done) << shift);
        done += 8 - shift;
    }
}

// The bytes of a field that is whole bytes long.
template <class Payload>
void get_bytes(const Payload& payload, Field field, uint8_t* to) {
    const auto* from = reinterpret_cast<const uint8_t*>(&payload) + field.low / 8;
    const int shift = field.low % 8, count = field.bits / 8;
    if (shift == 0) {
        std::memcpy(to, from, count);
        return;
    }
    for (int k = 0; k < count; ++k)
        to[k] = static_cast<uint8_t>(from[k] >> shift | from[k + 1] << (8 - shift));
}

// Sets such a field in a payload where it is zero.
template <class Payload>
void put_bytes(Payload& payload, Field field, const uint8_t* from) {
    auto* to = reinterpret_cast<uint8_t*>(&payload) + field.low / 8;
    const int shift = field.low % 8, count = field.bits / 8;
    if (shift == 0) {
        std::memcpy(to, from, count);
        return;
    }
    to[0] |= static_cast<uint8_t>(from[0] << shift);
    for (int k = 1; k < count; ++k)
        to[k] = static_cast<uint8_t>(from[k] << shift | from[k - 1] >> (8 - shift));
    to[count] |= static_cast<uint8_t>(from[count - 1] >> (8 - shift));
}
