"""The README's programs run; `tests/acceptance` runs its commands."""

from __future__ import annotations

from kubewright.testing import Cluster, eventually
from tests.docs.pages import run_page


async def test_the_test_that_it_shows_passes(cluster: Cluster) -> None:
    program = run_page("../README.md")
    program.eventually = eventually
    program.greeting = {
        "apiVersion": "example.com/v1",
        "kind": "Greeting",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"text": "hello"},
    }

    await program.test_a_lost_answer_does_no_harm(cluster)

    assert [str(hit.effect) for hit in cluster.faults.log] != []
