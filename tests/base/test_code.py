"""The code of a source: neither its layout, nor comments and docstrings, nor the package's name."""

from tilewright.base.code import code_of

PLAIN = """
from tilewright.hw import a

def f(x):
    'Doc.'
    return x  # why
"""
REWORDED = "# Why.\nfrom hw import a\ndef f(\n    x,\n):\n    return x\n"


def test_what_is_said_about_code_is_not_code():
    assert code_of(PLAIN) == code_of(REWORDED)
    assert code_of(PLAIN) != code_of(PLAIN.replace("return x", "return -x"))


def test_strings_that_are_no_docstrings_are_code():
    header = '"""Doc."""\nTEXT = """\n#define A 1\n"""\n'
    assert code_of(header) != code_of(header.replace("A 1", "A 2"))


def test_the_tree_is_the_same_in_every_version_of_python():
    assert code_of("def f(x):\n    return f'{x:>{3}}'\n") == (
        "Module(body=[FunctionDef(name='f',args=arguments(args=[arg(arg='x')]),"
        "body=[Return(value=JoinedStr(values=[FormattedValue(value=Name(id='x',ctx=Load()),"
        "conversion=-1,format_spec=JoinedStr(values=[Constant(value='>'),"
        "FormattedValue(value=Constant(value=3),conversion=-1)]))]))])])"
    )
