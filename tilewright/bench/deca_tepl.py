"""DECA processing element behind the TEPL unit: a memory and a core that speculates around it."""

MODULE = "tilewright.bench.deca_pe.tepl"
