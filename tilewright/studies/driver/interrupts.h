/* Let these events of INTERRUPT raise irq. */
static inline void ${name}_enable_interrupts(volatile uint64_t *registers, uint64_t events)
{
    ${name}_write(registers, offsetof(${block}_t, INTERRUPT_ENABLE), events);
}

/* In an interrupt handler: what happened, which is cleared; look at STATUS afterwards. */
static inline uint64_t ${name}_acknowledge(volatile uint64_t *registers)
{
    uint64_t events = ${name}_read(registers, offsetof(${block}_t, INTERRUPT));
    ${name}_write(registers, offsetof(${block}_t, INTERRUPT), events);
    return events;
}
