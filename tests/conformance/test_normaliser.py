from __future__ import annotations

import random
from typing import Any

from conformance.normaliser import Normaliser
from conformance.placeholders import Placeholders

ONE = "0b0d5a2e-9a1c-4d7e-8f00-000000000001"
TWO = "0b0d5a2e-9a1c-4d7e-8f00-000000000002"


def normalise(*bodies: Any, whole: tuple[Any, ...] = ()) -> list[Any]:
    placeholders = Placeholders(random.Random(1))
    exchanges = [{"body": placeholders.fill(body)} for body in bodies]
    normalised = Normaliser(placeholders).normalise(exchanges, placeholders.fill(list(whole)))
    return [exchange["body"] for exchange in normalised]


def test_equal_uids_stay_equal() -> None:
    assert normalise({"a": ONE, "b": [TWO, f"uid: {ONE}"]}) == [
        {"a": "<uid1>", "b": ["<uid2>", "uid: <uid1>"]}
    ]


def test_versions_keep_their_order() -> None:
    second, first = {"metadata": {"resourceVersion": "90"}}, {"metadata": {"resourceVersion": "7"}}
    assert normalise(second, first) == [
        {"metadata": {"resourceVersion": "<rv2>"}},
        {"metadata": {"resourceVersion": "<rv1>"}},
    ]


def test_versions_of_lists_and_bookmarks_do_not_count() -> None:
    listed = {"metadata": {"resourceVersion": "5"}, "items": []}
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    assert normalise(listed, bookmark) == [
        {"metadata": {"resourceVersion": "<rv>"}, "items": []},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "<rv>"}}},
    ]


def test_the_version_zero_of_a_list_stays() -> None:
    listed = {"metadata": {"resourceVersion": "0"}, "items": []}
    assert normalise(listed) == [listed]


def test_generated_names_are_told_by_their_prefix_in_any_answer() -> None:
    pod = {"metadata": {"generateName": "web-", "name": "web-x7k2p"}}
    assert normalise({"text": 'pods "web-x7k2p" not found'}, whole=(pod,)) == [
        {"text": 'pods "web-<name1>" not found'}
    ]


def test_ordinals_are_not_generated_names() -> None:
    pod = {"metadata": {"generateName": "web-", "name": "web-0"}}
    assert normalise(pod) == [pod]


def test_hashes_are_told_by_their_labels() -> None:
    pod = {"metadata": {"labels": {"pod-template-hash": "5d4f8"}, "name": "web-5d4f8-abcde"}}
    assert normalise({"name": "web-5d4f8-bcdfg"}, whole=(pod,)) == [
        {"name": "web-<hash1>-<random>"}
    ]


def test_times_names_and_addresses_are_replaced() -> None:
    body = {
        "at": "2026-11-28T01:00:45.000123Z",
        "namespace": "{ns}",
        "group": "{id}.example.com",
        "clusterIP": "10.96.3.4",
        "ports": [{"nodePort": 31234, "port": 80}],
        "continue": "abc",
        "cells": ["5d", "x"],
    }
    assert normalise(body) == [
        {
            "at": "<time>",
            "namespace": "NS",
            "group": "ID.example.com",
            "clusterIP": "<ip>",
            "ports": [{"nodePort": "<nodePort>", "port": 80}],
            "continue": "<continue>",
            "cells": ["<age>", "x"],
        }
    ]


def test_versions_inside_messages_are_replaced() -> None:
    assert normalise({"message": "too old resource version: 12 (3456)"}) == [
        {"message": "too old resource version: <rv> (<rv>)"}
    ]
