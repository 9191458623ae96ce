/* Read the register at a byte offset. */
static inline uint64_t ${name}_read(volatile uint64_t *registers, unsigned offset)
{
#if UINTPTR_MAX > 0xffffffffu
    return registers[offset / 8];
#else
    volatile uint32_t *half = (volatile uint32_t *)registers + offset / 4;
    uint64_t low = half[0];
    return low | (uint64_t)half[1] << 32;
#endif
}

/* Write the register at a byte offset. */
static inline void ${name}_write(volatile uint64_t *registers, unsigned offset, uint64_t value)
{
#if UINTPTR_MAX > 0xffffffffu
    registers[offset / 8] = value;
#else
    volatile uint32_t *half = (volatile uint32_t *)registers + offset / 4;
    half[0] = (uint32_t)value;
    half[1] = (uint32_t)(value >> 32);
#endif
}
