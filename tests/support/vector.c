/* AVX-512 instructions, for comparison with the golden model. x86-64.
 *
 * vector INSTRUCTION <REGISTERS >RESULTS: each 192 bytes of REGISTERS are c, a and b (for the
 * expansions: mask and source); each 64 bytes of RESULTS are what the instruction gives.
 */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static __m512i execute(const char *name, __m512i c, __m512i a, __m512i b) {
    uint64_t mask;
    memcpy(&mask, &c, sizeof mask);
    if (!strcmp(name, "vdpbf16ps"))
        return _mm512_castps_si512(
            _mm512_dpbf16_ps(_mm512_castsi512_ps(c), (__m512bh)a, (__m512bh)b));
    if (!strcmp(name, "vpdpbusd")) return _mm512_dpbusd_epi32(c, a, b);
    if (!strcmp(name, "vpexpandw")) return _mm512_maskz_expand_epi16((__mmask32)mask, a);
    if (!strcmp(name, "vpexpandb")) return _mm512_maskz_expand_epi8((__mmask64)mask, a);
    return _mm512_multishift_epi64_epi8(a, b);
}

int main(int argc, char **argv) {
    uint8_t registers[3][64];
    if (argc != 2) return 2;
    while (fread(registers, sizeof registers, 1, stdin) == 1) {
        const __m512i result =
            execute(argv[1], _mm512_loadu_si512(registers[0]), _mm512_loadu_si512(registers[1]),
                    _mm512_loadu_si512(registers[2]));
        _mm512_storeu_si512(registers[0], result);
        fwrite(registers[0], 64, 1, stdout);
    }
    return 0;
}
