"""Whole computations on simulated accelerators, each compared with its golden model.

Every module has one function that runs it and returns a frozen result object. ``tilewright
simulate`` calls them; a bench that fails raises :class:`~tilewright.base.errors.CheckError`.
"""
