"""What of a source is its code."""

from tilewright.base.code import code_of


def test_comments_and_docstrings_are_no_code():
    plain = '"""About."""\nX = 1\n\n\ndef f():\n    """Does."""\n    return X  # why\n'
    reworded = (
        '"""Of."""\n# A reason.\nX = 1\ndef f():\n    """Gives\n    X."""\n    return X  # why\n'
    )
    assert code_of(plain) == code_of(reworded) == "X = 1\ndef f():\n    return X  # why\n"
    assert code_of(plain) != code_of(plain.replace("X = 1", "X = 2"))


def test_lines_of_strings_are_code():
    """Such as those of a header in C; the docstring of a coroutine is none."""
    header = 'TEXT = """\n#define A 1\n"""\nasync def f():\n    """Does."""\n'
    assert code_of(header) == 'TEXT = """\n#define A 1\n"""\nasync def f():\n'
    assert code_of(header) != code_of(header.replace("A 1", "A 2"))
