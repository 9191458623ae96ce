"""Comparison of processing elements."""
