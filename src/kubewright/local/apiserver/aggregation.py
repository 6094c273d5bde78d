"""APIServices: this server does not pass requests on to other API servers."""

from __future__ import annotations

from kubewright.api.errors import NotImplementedByServer
from kubewright.local.apiserver.admission import Attributes

_GROUP = "apiregistration.k8s.io"


class AggregationRefusal:
    """Refuses APIServices that name a Service: their group would answer 404 without a word."""

    async def mutate(self, attributes: Attributes) -> None:
        """Change nothing."""

    async def validate(self, attributes: Attributes) -> None:
        """Judge an APIService.

        Raises:
            NotImplementedByServer: it names a Service.
        """
        resource, obj = attributes.kind.resource, attributes.obj
        if resource.group != _GROUP or resource.plural != "apiservices" or obj is None:
            return
        if (obj.get("spec") or {}).get("service") is not None:
            raise NotImplementedByServer(
                "aggregated APIs are not supported by this API server: an APIService may name no "
                "service",
                None,
            )
