"""DECA processing element behind the TEPL unit: a memory and a core that speculates around it."""

MODULE = "tilewright.verify.deca.tepl"
