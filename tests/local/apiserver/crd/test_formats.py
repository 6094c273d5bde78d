from __future__ import annotations

import pytest

from kubewright.local.apiserver.crd.formats import CHECKED_FORMATS, is_known_format


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("byte", ["aGk="], ["", "*", "aGk"]),
        ("cidr", ["192.0.2.0/24", "fe80::/10"], ["10.0.0.0", "10.0.0.0/x"]),
        ("creditcard", ["4111111111111111"], ["4111111111111112"]),
        ("date", ["2024-02-29"], ["2024-02-30", "20240229"]),
        ("date-time", ["2024-01-01T00:00:00.5+05:30"], ["2024-01-01", "2024-01-01T24:00:00Z"]),
        ("duration", ["1h30m", "3 weeks", "1.5h", "P1D"], ["5 parsecs", "", "5"]),
        ("email", ["a@b.example", '"a b"@c.d'], ["nobody", "a b@c"]),
        ("hostname", ["a.example", "host"], ["-x", "1.2.3.4", "h_x.y", "a.example."]),
        ("ipv4", ["192.0.2.1", "01.2.3.4", "::ffff:1.2.3.4"], ["1.2.3", "::1"]),
        ("ipv6", ["::1"], ["1.2.3.4"]),
        ("isbn", ["0-306-40615-2", "978-3-16-148410-0"], ["0-306-40615-3"]),
        ("k8s-short-name", ["a-b"], ["A", "a.b", "x" * 64]),
        ("mac", ["00:00:5e:00:53:01", "0000.5e00.5301"], ["zz", "00:00"]),
        ("rgbcolor", ["rgb(1,2,3)"], ["rgb(300,0,0)"]),
        ("uri", ["http://a.example/x?y", "/a"], ["not a uri", "a/b"]),
        ("uuid", ["123E4567-e89b-12d3-a456-426614174000"], ["123"]),
    ],
)
def test_checks_format(name: str, good: list[str], bad: list[str]) -> None:
    accepts = CHECKED_FORMATS[name]
    assert [text for text in good if not accepts(text)] == []
    assert [text for text in bad if accepts(text)] == []


def test_formats_of_numbers_mean_nothing_for_strings() -> None:
    assert is_known_format("int32", "integer")
    assert not is_known_format("int32", "string")
