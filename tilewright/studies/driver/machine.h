/* Write a program of `count` instructions of two words each, low half first. */
static inline void ${name}_load_program(volatile uint64_t *registers, const uint64_t *words,
                                       unsigned count)
{
    for (unsigned k = 0; k < 2 * count; k++)
        ${name}_write(registers, offsetof(${block}_t, INSTRUCTIONS) + 8 * k, words[k]);
}

/* Clear counters and status, and start the program in the instruction memory. */
static inline void ${name}_start(volatile uint64_t *registers)
{
    ${name}_write(registers, offsetof(${block}_t, CONTROL), ${fields}__CONTROL__START_bm);
}

/* Start a program that lies in external memory, from line `line` on. */
static inline void ${name}_start_stream(volatile uint64_t *registers, uint64_t line)
{
    ${name}_write(registers, offsetof(${block}_t, CONTROL), ${fields}__CONTROL__START_bm
        | ${fields}__CONTROL__STREAM_bm | line << ${fields}__CONTROL__LINE_bp);
}

/* Wait for the end of a program; ${up}_ERROR_NONE if it halted. */
static inline unsigned ${name}_wait(volatile uint64_t *registers)
{
    uint64_t status;
    do
        status = ${name}_read(registers, offsetof(${block}_t, STATUS));
    while (!(status & ${fields}__STATUS__DONE_bm));
    return (unsigned)((status & ${fields}__STATUS__ERROR_bm) >> ${fields}__STATUS__ERROR_bp);
}

/* One of ${up}_COUNTER_...; CYCLES are from the start of the last program to its halt. */
static inline uint64_t ${name}_counter(volatile uint64_t *registers, unsigned number)
{
    return ${name}_read(registers, offsetof(${block}_t, COUNTER_CYCLES) + 8 * number);
}
