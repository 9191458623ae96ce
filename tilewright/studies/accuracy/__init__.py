"""Losses of a real language model by number formats: searches, sweeps, tables and their records."""
