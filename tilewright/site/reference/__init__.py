"""Pieces of the documentation site that are made from the code: docs/conf.py puts them in."""
