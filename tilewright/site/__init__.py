"""Tables and figures of the documentation site, made from records, claims and runs.

A page of ``docs`` calls these functions in hidden cells, so that every number on it is made anew
whenever the site is built. Text belongs in the pages, never here.
"""
