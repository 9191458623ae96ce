"""DECA processing element behind AXI: an AXI memory and an AXI master around it."""

MODULE = "tilewright.verify.deca.axi"
