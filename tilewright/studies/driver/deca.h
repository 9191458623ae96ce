/* Byte offset of a register of a loader. */
static inline unsigned deca_loader(unsigned loader, unsigned offset)
{
    return DECA_LOADER + loader * DECA_LOADER_STRIDE + offset;
}

/* Wait for a tile's result, take it, and return how it ended. */
static inline unsigned deca_wait(volatile uint64_t *registers, unsigned loader)
{
    unsigned status = deca_loader(loader, DECA_LOADER_STATUS);
    uint64_t now;
    do
        now = deca_read(registers, status);
    while (!(now >> DECA_STATUS_DONE_SHIFT & 1));
    deca_write(registers, status, 2); /* takes the result */
    return (unsigned)(now >> DECA_STATUS_ERROR_SHIFT & DECA_STATUS_ERROR_MASK);
}
