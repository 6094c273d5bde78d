from __future__ import annotations

import pytest

from kubewright.local.node.env_file import EnvFileError, read_variable

TEXT = """
# a comment
A='one'
B='two
lines'  # and a comment
C= 'ignored'
D=''
"""


@pytest.mark.parametrize(
    ("key", "value"), [("A", "one"), ("B", "two\nlines"), ("C", ""), ("D", ""), ("E", "")]
)
def test_reads_a_variable(key: str, value: str) -> None:
    assert read_variable(TEXT, key) == value


@pytest.mark.parametrize("line", ["A", "='x'", "A ='x'", "A=x", "A='x", "A='x' y", "A="])
def test_refuses_what_is_not_in_the_format(line: str) -> None:
    with pytest.raises(EnvFileError):
        read_variable(line, "Z")
