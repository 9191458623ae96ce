"""DECA processing element: a memory and a core around it."""

MODULE = "tilewright.bench.deca_pe.tests"
