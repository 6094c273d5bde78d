import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewright.api.quantity import Quantity


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("1000", "1k"),
        ("12E", "12E"),
        ("0", "0"),
        ("-500m", "-500m"),
        ("100n", "100n"),
        ("512", "512"),
    ],
)
def test_canonical_form_is_that_of_the_api_server(text: str, canonical: str) -> None:
    assert str(Quantity(text)) == canonical


@pytest.mark.parametrize("text", ["", "abc", "1.2.3", "1 Gi", "Gi", "1KiB", "--1"])
def test_refuses_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        Quantity(text)


def test_equal_amounts_are_equal_however_written() -> None:
    assert Quantity("1000m") == Quantity("1") == Quantity("1e0")
    assert hash(Quantity("1Ki")) == hash(Quantity("1024"))
    assert Quantity("1Gi") > Quantity("1G")


def test_finer_than_nano_rounds_away_from_zero() -> None:
    assert Quantity("0.1n") == Quantity("1n")
    assert Quantity("-0.1n") == Quantity("-1n")


def test_whole_numbers_round_up() -> None:
    assert Quantity("1500m").to_int() == 2
    assert Quantity("1.0001").to_milli() == 1001


@given(st.integers(-(10**9), 10**9), st.sampled_from(["n", "u", "m", "", "k", "M", "Ki", "Mi"]))
def test_canonical_form_reads_back_as_the_same_amount(number: int, suffix: str) -> None:
    quantity = Quantity(f"{number}{suffix}")

    assert Quantity(str(quantity)) == quantity
    assert str(Quantity(str(quantity))) == str(quantity)
