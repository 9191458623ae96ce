/* Copies operands to the accelerator's memory, has it compute a GEMM, and reports.

   gemm.h is generated: operands and programs, addresses, and the accelerator's driver header, whose
   names DRIVER and CODE put together. */
#include "gemm.h"

#define CONSOLE (*(volatile uint32_t *)CONSOLE_BASE)

static volatile uint64_t *const registers = (volatile uint64_t *)REGISTERS_BASE;
static uint32_t *const memory = (uint32_t *)MEMORY_BASE;

static void print(const char *text)
{
    while (*text)
        CONSOLE = (uint8_t)*text++;
}

static void print_hex(uint32_t value)
{
    for (int shift = 28; shift >= 0; shift -= 4)
        CONSOLE = "0123456789abcdef"[value >> shift & 15];
}

static void report(const char *name, uint32_t value)
{
    print(name);
    print(" ");
    print_hex(value);
    print("\n");
}

static uint32_t cycles(void)
{
    uint32_t now;
    __asm__ volatile("rdcycle %0" : "=r"(now));
    return now;
}

/* As FNV-1a, by words: every bit and the order of words decide it. */
static uint32_t hash(const uint32_t *words, unsigned count)
{
    uint32_t found = 2166136261u;
    for (unsigned k = 0; k < count; k++)
        found = (found ^ words[k]) * 16777619u;
    return found;
}

int main(void)
{
    report("identity", (uint32_t)DRIVER(read)(registers, CODE(IDENTITY)));
    for (unsigned k = 0; k < IMAGE_WORDS; k++)
        memory[k] = image[k];
    uint32_t start = cycles();
    for (unsigned number = 0, first = 0; number < PROGRAMS; number++) {
#ifdef STREAMS
        DRIVER(start_stream)(registers, program_lines[number]);
        (void)first;
#else
        DRIVER(load_program)(registers, instructions + 2 * first, lengths[number]);
        first += lengths[number];
        DRIVER(start)(registers);
#endif
        unsigned error = DRIVER(wait)(registers);
        if (error != CODE(ERROR_NONE)) {
            report("error", error);
            return 1;
        }
        report("program", (uint32_t)DRIVER(counter)(registers, CODE(COUNTER_CYCLES)));
    }
    report("driver", cycles() - start);
    report("result", hash(memory + RESULT_WORD, RESULT_WORDS));
    return 0;
}
