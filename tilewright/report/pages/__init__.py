"""One module per page; see ``tilewright.report`` for what it must have."""
