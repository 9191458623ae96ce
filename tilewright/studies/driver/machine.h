/* Write a program of `count` instructions of two words each, low half first. */
static inline void ${name}_load_program(volatile uint64_t *registers, const uint64_t *words,
                                       unsigned count)
{
    for (unsigned k = 0; k < 2 * count; k++)
        ${name}_write(registers, ${up}_INSTRUCTION_BASE + 8 * k, words[k]);
}

/* Clear counters and status, and start the program in the instruction memory. */
static inline void ${name}_start(volatile uint64_t *registers)
{
    ${name}_write(registers, ${up}_CONTROL, 1ull << ${up}_CONTROL_START_SHIFT);
}

/* Start a program that lies in external memory, from line `line` on. */
static inline void ${name}_start_stream(volatile uint64_t *registers, uint64_t line)
{
    ${name}_write(registers, ${up}_CONTROL, 1ull << ${up}_CONTROL_START_SHIFT
        | 1ull << ${up}_CONTROL_STREAM_SHIFT | line << ${up}_CONTROL_LINE_SHIFT);
}

/* Wait for the end of a program; ${up}_ERROR_NONE if it halted. */
static inline unsigned ${name}_wait(volatile uint64_t *registers)
{
    uint64_t status;
    do
        status = ${name}_read(registers, ${up}_STATUS);
    while (!(status >> ${up}_STATUS_DONE_SHIFT & 1));
    return (unsigned)(status >> ${up}_STATUS_ERROR_SHIFT & ${up}_STATUS_ERROR_MASK);
}

/* One of ${up}_COUNTER_...; CYCLES are from the start of the last program to its halt. */
static inline uint64_t ${name}_counter(volatile uint64_t *registers, unsigned number)
{
    return ${name}_read(registers, ${up}_COUNTERS + 8 * number);
}
