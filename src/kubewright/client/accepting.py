"""A transport that asks for another form of the same answers.

API servers answer reads in the form that the Accept header names: whole objects, metadata alone
(`PartialObjectMetadata`), or all of discovery in one document (KEP-3352).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from kubewright.client.client import Client
from kubewright.client.transport import (
    NO_HEADERS,
    PassingTransport,
    Query,
    Response,
    Stream,
    Transport,
)

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
AGGREGATED_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class AcceptingTransport(PassingTransport):
    """Send requests on through another transport with an Accept header of its own."""

    def __init__(self, transport: Transport, *, accept: str, accept_stream: str) -> None:
        super().__init__(transport)
        self._accept = accept
        self._accept_stream = accept_stream

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> Response:
        """Send a request; writes keep the Accept header they have."""
        if method == "GET":
            headers = {**headers, "Accept": self._accept}
        return await super().request(method, path, query=query, headers=headers, body=body)

    def stream(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[Stream]:
        """Send a request whose answer is read while it comes."""
        headers = {**headers, "Accept": self._accept_stream}
        return super().stream(method, path, query=query, headers=headers, body=body)

    async def close(self) -> None:
        """Do nothing: the transport below belongs to its own client."""


def build_metadata_client(client: Client) -> Client:
    """Build a client whose lists and watches bring metadata alone, over the same connections."""
    transport = AcceptingTransport(client.transport, accept=METADATA_LIST, accept_stream=METADATA)
    return Client(transport, field_manager=client.field_manager)


def build_discovery_client(client: Client) -> Client:
    """Build a client that gets discovery in one document."""
    transport = AcceptingTransport(
        client.transport, accept=AGGREGATED_DISCOVERY, accept_stream=AGGREGATED_DISCOVERY
    )
    return Client(transport, field_manager=client.field_manager)
