"""The program of "Triggers, order and reads" holds what its page says."""

from __future__ import annotations

from kubewright.api import builtin
from tests.docs.pages import run_page


def test_a_read_holds_a_part_of_a_kind() -> None:
    certificates = run_page("triggers-and-reads.md").certificates

    assert certificates.resource == builtin.SECRET
    assert certificates.metadata_only
    assert certificates.is_selective
