"""``tilewright compare``: several designs on the same work, one module per kind of comparison."""

NAME = "compare"
HELP = "compare designs with each other on the same work"
EXAMPLE = "tilewright compare llm llama-2-70b --batch 16"
METAVAR = "WHAT"
