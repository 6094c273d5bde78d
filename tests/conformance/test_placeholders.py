from __future__ import annotations

import random

from conformance.placeholders import Placeholders


def test_a_whole_text_becomes_its_meaning_of_any_type() -> None:
    placeholders = Placeholders(random.Random(1))
    placeholders.set("n", 7)
    assert placeholders.fill({"a": "{n}", "b": "n={n}", "c": ["{n}"]}) == {
        "a": 7,
        "b": "n=7",
        "c": [7],
    }


def test_names_of_fields_are_filled_and_unknown_words_stay() -> None:
    placeholders = Placeholders(random.Random(1))
    filled = placeholders.fill({"{id}.example.com": "{other}"})
    assert filled == {f"{placeholders.word}.example.com": "{other}"}


def test_two_runs_have_different_words() -> None:
    rng = random.Random(1)
    assert Placeholders(rng).namespace != Placeholders(rng).namespace


def test_an_encoded_body_keeps_its_length() -> None:
    placeholders = Placeholders(random.Random(1))
    data = b"\x0bns-aaaaaaaa\x0aidaaaaaaaa"
    filled = placeholders.fill_bytes(data)
    assert len(filled) == len(data)
    assert filled == f"\x0b{placeholders.namespace}\x0a{placeholders.word}".encode()
