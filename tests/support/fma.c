/* Fused multiply-adds with subnormals flushed, for comparison with the golden model. x86-64.
 *
 * fma <OPERANDS >RESULTS: each 12 bytes of OPERANDS are c, a and b in fp32; each 4 bytes of RESULTS
 * are a * b + c with flush-to-zero and denormals-are-zero set, rounded to nearest even.
 */
#include <immintrin.h>
#include <stdio.h>

int main(void) {
    float operands[3], result;
    _mm_setcsr(0x9fc0); /* FTZ, DAZ, all exceptions masked */
    while (fread(operands, sizeof operands, 1, stdin) == 1) {
        const __m128 c = _mm_set_ss(operands[0]), a = _mm_set_ss(operands[1]);
        _mm_store_ss(&result, _mm_fmadd_ss(a, _mm_set_ss(operands[2]), c));
        fwrite(&result, sizeof result, 1, stdout);
    }
    return 0;
}
