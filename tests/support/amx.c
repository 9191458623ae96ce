/* AMX instructions on full tiles, for comparison with the golden model. Linux, x86-64.
 *
 * amx INSTRUCTION <TILES >RESULTS: each 3 KiB of TILES are c, a and b; each 1 KiB of RESULTS is c.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18, ROWS = 16, ROW_BYTES = 64 };

static void configure(void) {
    uint8_t config[64];
    memset(config, 0, sizeof config);
    config[0] = 1; /* palette: tiles of 16 rows of 64 bytes */
    for (int tile = 0; tile < 3; tile++) {
        config[16 + 2 * tile] = ROW_BYTES;
        config[48 + tile] = ROWS;
    }
    _tile_loadconfig(config);
}

int main(int argc, char **argv) {
    static uint8_t tiles[3][ROWS * ROW_BYTES];
    if (argc != 2) return 2;
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)) {
        perror("no tile registers for this process");
        return 1;
    }
    int integer = !strcmp(argv[1], "tdpbssd");
    while (fread(tiles, sizeof tiles, 1, stdin) == 1) {
        configure();
        _tile_loadd(0, tiles[0], ROW_BYTES);
        _tile_loadd(1, tiles[1], ROW_BYTES);
        _tile_loadd(2, tiles[2], ROW_BYTES);
        if (integer) _tile_dpbssd(0, 1, 2);
        else _tile_dpbf16ps(0, 1, 2);
        _tile_stored(0, tiles[0], ROW_BYTES);
        _tile_release();
        fwrite(tiles[0], sizeof tiles[0], 1, stdout);
    }
    return 0;
}
