"""How fast the programs are: ``python -m benchmarks``, and a program for each kind of record."""
