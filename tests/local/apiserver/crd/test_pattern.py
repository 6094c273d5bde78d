from __future__ import annotations

import pytest

from kubewright.local.apiserver.crd.pattern import UnsupportedPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^[a-z]+\d?$", "abc1", "abc1\n"),
        (r"b", "abc", "ac"),
        (r"^[[:alpha:]_]+\z", "a_b", "a1"),
        (r"^\d$", "1", "٣"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^[]a]$", "]", "b"),
        (r"^\x{41}$", "A", "B"),
        (r"(?i)^ab$", "AB", "AC"),
        (r"^(?i)(abort|warn)?$", "Warn", "other"),
        (r"^(a(?i)b|c)d$", "aBd", "CD"),
        (r"^(a(?i)b|c)d$", "Cd", "Abd"),
        (r"^(?:(?i)a)b$", "Ab", "AB"),
        (r"^(?i)a(?-i)b$", "Ab", "AB"),
        (r"^(?m:^a$)", "a\nb", "b"),
        (r"^(?<first>a)(?P<second>b)$", "ab", "a"),
        (r"^[a&&b|~[]$", "&", "c"),
    ],
)
def test_reads_re2_syntax(pattern: str, good: str, bad: str) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.search(good)
    assert not compiled.search(bad)


@pytest.mark.parametrize("pattern", ["([", "(?=a)", "(?<!a)b", r"(a)\1", "a++"])
def test_refuses_what_re2_refuses(pattern: str) -> None:
    with pytest.raises(ValueError, match="error parsing regexp"):
        compile_pattern(pattern)


def test_names_what_it_cannot_read() -> None:
    for pattern in (r"\p{Greek}", "(?U)a+"):
        with pytest.raises(UnsupportedPattern, match="not supported by this server"):
            compile_pattern(pattern)
