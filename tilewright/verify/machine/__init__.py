"""What the benches of programmable accelerators share: a host, an external memory, comparisons."""
