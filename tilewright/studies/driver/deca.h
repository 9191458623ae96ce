/* Byte offset of a register of a loader, such as offsetof(${block}__LOADER_t, GO). */
static inline unsigned deca_loader(unsigned loader, unsigned offset)
{
    return offsetof(${block}_t, LOADER) + loader * sizeof(${block}__LOADER_t) + offset;
}

/* Wait for a tile's result, take it, and return how it ended. */
static inline unsigned deca_wait(volatile uint64_t *registers, unsigned loader)
{
    unsigned status = deca_loader(loader, offsetof(${block}__LOADER_t, STATUS));
    uint64_t now;
    do
        now = deca_read(registers, status);
    while (!(now & ${fields}__LOADER__STATUS__DONE_bm));
    deca_write(registers, status, ${fields}__LOADER__STATUS__TAKE_RESULT_bm);
    return (unsigned)((now & ${fields}__LOADER__STATUS__ERROR_bm) >> ${fields}__LOADER__STATUS__ERROR_bp);
}
