from __future__ import annotations

import pytest

from kubewright.api.errors import NotAcceptable, UnsupportedMediaType
from kubewright.local.apiserver.negotiation import Media, body_type, negotiate

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("", Media()),
        ("text/html, */*", Media()),
        ("application/vnd.kubernetes.protobuf,application/json", Media()),
        ("application/yaml", Media("application/yaml")),
        (f"{TABLE},application/json", Media(convert="Table", version="v1")),
        ("application/json;as=Nonsense;v=v1;g=meta.k8s.io, application/json", Media()),
        ("application/yaml;q=0.1,application/json;q=0.9", Media()),
    ],
)
def test_chooses_what_the_client_wants_most(header: str, media: Media) -> None:
    assert negotiate(header) == media


def test_protobuf_alone_is_refused_with_what_is_served() -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted"):
        negotiate("application/vnd.kubernetes.protobuf")


def test_foreign_types_are_refused_with_the_representations() -> None:
    with pytest.raises(NotAcceptable, match="406: Not Acceptable") as caught:
        negotiate("text/html", streams=True)
    assert "application/json;stream=watch" in caught.value.message


def test_a_body_without_type_is_json() -> None:
    assert body_type("") == "application/json"
    assert body_type("application/json; charset=utf-8") == "application/json"


def test_an_unknown_body_type_is_refused() -> None:
    with pytest.raises(UnsupportedMediaType):
        body_type("text/plain")
