// Shapes of the tile registers, as LDTILECFG reads them.
#pragma once

#include <cstdint>

namespace tilewright::amx {

struct alignas(64) Config {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};

    void tile(int index, int row_count, int bytes) {
        rows[index] = uint8_t(row_count);
        row_bytes[index] = uint16_t(bytes);
    }
};

}  // namespace tilewright::amx
