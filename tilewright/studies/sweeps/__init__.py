"""Many variants of a block through synthesis and simulation, and families of designs."""
