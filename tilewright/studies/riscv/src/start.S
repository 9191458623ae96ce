/* Where the processor begins: a stack, and main. Variables without a value are zero already. */
    .section .start, "ax"
    .global _start
_start:
    la   sp, stack_top
    call main
    la   t0, console
    sw   a0, 4(t0) /* ends the simulation */
stay:
    j    stay
