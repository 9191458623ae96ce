"""One module per comparison of ``tilewright compare``: NAME, HELP, EXAMPLE, add_arguments, run.

A module imports what it needs inside ``run``; the command line loads all of them for its help.
"""
