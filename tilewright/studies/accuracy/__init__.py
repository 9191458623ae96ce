"""Losses of a real language model by number formats: searches, sweeps, tables and their records.

``subject`` is a model with a text to measure it on and the file that remembers every measurement,
``anda`` and ``harmonia`` are the experiments, ``records`` what is committed of them.
"""
