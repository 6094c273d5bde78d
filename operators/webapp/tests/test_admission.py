"""What users may ask for: refused by the API server in a sentence, or it works."""

from __future__ import annotations

import random
import string
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
import yaml

import kubewright as kw
from kubewright.api.errors import Invalid
from kubewright.testing import Cluster, eventually
from operators.webapp.tests.apps import PACKAGE, read_dapr_definition, read_sample
from webapp_operator import Guestbook, MyApp, SimpleApp, operator
from webapp_operator.component import COMPONENT
from webapp_operator.operator import build_simple_app, build_with_dapr

KINDS = {kind.__name__: kind for kind in (SimpleApp, Guestbook, MyApp)}


def test_generated_crds_are_up_to_date() -> None:
    """`make generate` writes them; users apply them."""
    written = (PACKAGE / "config" / "crd.yaml").read_text()

    assert list(yaml.safe_load_all(written)) == operator.crds()


def build(kind: str, name: str = "app", **spec: Any) -> kw.Object:
    return {
        "apiVersion": KINDS[kind].resource.api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.mark.parametrize("name", ["simpleapp", "guestbook", "myapp"])
async def test_the_samples_are_stored_as_they_are(cluster: Cluster, name: str) -> None:
    await cluster.install(operator)
    sample = read_sample(name)

    stored = await cluster.client.create(sample)

    assert is_part_of(sample["spec"], stored["spec"])


def is_part_of(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return all(is_part_of(value, whole.get(field)) for field, value in part.items())
    return bool(part == whole)


@pytest.mark.parametrize("kind", list(KINDS))
async def test_everything_may_be_left_out(cluster: Cluster, kind: str) -> None:
    await cluster.install(operator)
    bare = build(kind)
    del bare["spec"]

    stored = await cluster.client.create(bare)

    assert (stored["spec"]["replicas"], stored["spec"]["image"]) == (1, "nginx:latest")


BAD_INPUT: list[tuple[kw.Object, str]] = [
    (build("SimpleApp", replicas=-1), r"spec\.replicas.*should be greater than or equal to 0"),
    (build("SimpleApp", replicas=1001), r"spec\.replicas.*should be less than or equal to 1000"),
    (build("SimpleApp", replicas="two"), r"spec\.replicas.*must be of type integer"),
    (build("SimpleApp", image=""), r"spec\.image.*write an image as .*such as nginx:1\.27"),
    (build("SimpleApp", image="Nginx"), r"spec\.image.*in lower case"),
    (build("SimpleApp", image="nginx latest"), r"spec\.image.*write an image as"),
    (build("SimpleApp", runAsUser=0), r"spec\.runAsUser.*greater than or equal to 1"),
    (build("SimpleApp", writablePaths=["run"]), r"spec\.writablePaths.*absolute paths"),
    (build("SimpleApp", writablePaths=["/"]), r"spec\.writablePaths.*absolute paths"),
    (build("SimpleApp", writablePaths=["/a/../etc"]), r"spec\.writablePaths.*without"),
    (build("SimpleApp", writablePaths=["/a", "/a"]), r"spec\.writablePaths\[1\]: Duplicate"),
    (build("SimpleApp", "a" * 64), r"metadata\.name: give it 63 characters at most"),
    (build("Guestbook", daprAppId="Guest Book"), r"spec\.daprAppId.*write lower-case letters"),
    (build("Guestbook", daprAppId=""), r"spec\.daprAppId.*write lower-case letters"),
    (build("Guestbook", daprAppId="a" * 59), r"spec\.daprAppId.*(58|at most)"),
    (build("Guestbook", "my.book"), r"spec\.daprAppId: give one, for metadata\.name"),
    (build("Guestbook", "a" * 59), r"spec\.daprAppId: give one, for metadata\.name"),
    (build("MyApp", "my.app"), r"spec\.dapr\.appId: give one"),
    (build("MyApp", dapr={"appId": "-x"}), r"spec\.dapr\.appId.*write lower-case letters"),
    (build("MyApp", dapr={"stateStore": "state.redis"}), r"stateStore.*without 'state\.'"),
    (build("MyApp", dapr={"stateStore": ""}), r"spec\.dapr\.stateStore.*such as in-memory"),
    (
        build("MyApp", dapr={"stateStoreMetadata": [{"name": "redisHost"}]}),
        r"stateStoreMetadata\[0\].*give either a value or a secretKeyRef",
    ),
]


async def test_bad_input_is_refused_with_the_field_and_what_is_allowed(cluster: Cluster) -> None:
    await cluster.install(operator)

    for obj, sentence in BAD_INPUT:
        with pytest.raises(Invalid, match=sentence):
            await cluster.client.create(obj, dry_run=True)


async def test_a_name_that_is_no_app_id_is_fine_beside_one_that_is_given(cluster: Cluster) -> None:
    await cluster.install(operator)

    await cluster.client.create(build("Guestbook", "my.book", daprAppId="book"), dry_run=True)
    await cluster.client.create(build("MyApp", "my.app", dapr={"appId": "app"}), dry_run=True)


def random_words(choose: random.Random) -> Iterable[tuple[str, str]]:
    """Yield names and texts: over what the API takes for a name, and over all that is printable."""
    for _ in range(150):
        size = choose.choice((1, 2, 10, 57, 58, 59, 62, 63, 64, 200, 253))
        name = "".join(choose.choice("abz09-.") for _ in range(size))
        text = "".join(choose.choice(string.printable) for _ in range(choose.choice((1, 5, 60))))
        digest = f"{name}/{name}@sha256:{'a' * 64}"
        yield name, choose.choice((text, name, f"{name}:{name}", digest))


async def test_what_is_admitted_makes_children_that_are_admitted(cluster: Cluster) -> None:
    """A property: no name and no text gets past the rules that the children would fail on."""
    await cluster.install(operator)
    await cluster.client.create(read_dapr_definition())
    await eventually(lambda: cluster.client.list(COMPONENT), lambda found: True)
    seed = random.randrange(2**32)
    admitted = 0
    for name, text in random_words(random.Random(seed)):
        for obj in (
            build("SimpleApp", name, image=text),
            build("SimpleApp", name, writablePaths=[f"/{text}"]),
            build("Guestbook", name, daprAppId=text),
            build("MyApp", name, dapr={"stateStore": text}),
            build("MyApp", name),
        ):
            stored = await store(cluster, obj)
            if stored is None:
                continue
            admitted += 1
            for child in children_of(stored):
                child["metadata"]["namespace"] = "default"
                await cluster.client.create(child, dry_run=True)
    assert admitted > 20, f"too few to mean anything; seed {seed}"


async def store(cluster: Cluster, obj: kw.Object) -> kw.Object | None:
    try:
        return await cluster.client.create(obj, dry_run=True)
    except Invalid:
        return None


def children_of(stored: kw.Object) -> list[kw.Object]:
    app: Any = KINDS[stored["kind"]].decode(msgspec.json.encode(stored))
    children = build_simple_app(app) if isinstance(app, SimpleApp) else build_with_dapr(app)
    return [drop_none(child) for child in children]


def drop_none(value: Any) -> Any:
    """Leave out what is None, as the runtime does."""
    if isinstance(value, dict):
        return {key: drop_none(each) for key, each in value.items() if each is not None}
    return [drop_none(each) for each in value] if isinstance(value, list) else value
