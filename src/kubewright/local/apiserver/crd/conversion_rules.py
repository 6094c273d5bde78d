"""Rules of `spec.conversion` of a CustomResourceDefinition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from kubewright.api.errors import Cause
from kubewright.local.apiserver.field_error import forbidden, invalid, not_supported, required
from kubewright.local.apiserver.formats import check_dns_1035_label, range_fault

_RECOGNIZED = ("v1", "v1beta1")


def validate_conversion(conversion: Mapping[str, Any] | None) -> list[Cause]:
    """Return what is wrong with the conversion strategy and its webhook."""
    if conversion is None:
        return []
    field = "spec.conversion"
    strategy = conversion.get("strategy")
    webhook = conversion.get("webhook") or {}
    if not strategy:
        return [required(f"{field}.strategy")]
    if strategy == "Webhook":
        return _validate_client(webhook.get("clientConfig"), f"{field}.webhookClientConfig") + (
            _validate_review_versions(webhook, f"{field}.conversionReviewVersions")
        )
    causes = []
    if strategy != "None":
        causes.append(not_supported(f"{field}.strategy", strategy, ("None", "Webhook")))
    detail = "should not be set when strategy is not set to Webhook"
    if webhook.get("clientConfig") is not None:
        causes.append(forbidden(f"{field}.webhookClientConfig", detail))
    if webhook.get("conversionReviewVersions"):
        causes.append(forbidden(f"{field}.conversionReviewVersions", detail))
    return causes


def _validate_client(config: Mapping[str, Any] | None, field: str) -> list[Cause]:
    if config is None:
        return [required(field, "required when strategy is set to Webhook")]
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if service is None:
        return _validate_url(str(url), f"{field}.url")
    return _validate_service(service, f"{field}.service")


def _validate_service(service: Mapping[str, Any], field: str) -> list[Cause]:
    causes = [required(f"{field}.{key}") for key in ("name", "namespace") if not service.get(key)]
    path, port = service.get("path"), service.get("port")
    if path and not path.startswith("/"):
        causes.append(invalid(f"{field}.path", path, "must start with a '/'"))
        causes.append(invalid(f"{field}.path", path, "segment[0] may not be empty"))
    if port is not None and not 1 <= port <= 65535:
        detail = f"port is not valid: {range_fault(1, 65535)}"
        causes.append(invalid(f"{field}.port", port, detail))
    return causes


def _validate_url(url: str, field: str) -> list[Cause]:
    parts = urlsplit(url)
    form = "desired format: https://host[/path]"
    causes = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme; {form}"
        causes.append(invalid(field, parts.scheme, detail))
    if not parts.netloc:
        causes.append(invalid(field, "", f"host must be specified; {form}"))
    refused = (
        (parts.netloc.rpartition("@")[0], "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    )
    for found, what in refused:
        if found:
            causes.append(invalid(field, found, f"{what} not permitted in the URL"))
    return causes


def _validate_review_versions(webhook: Mapping[str, Any], field: str) -> list[Cause]:
    versions = webhook.get("conversionReviewVersions") or []
    if not versions:
        return [required(field)]
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid(f"{field}[{index}]", version, "duplicate version"))
        elif faults := check_dns_1035_label(version):
            causes.append(invalid(f"{field}[{index}]", version, ",".join(faults)))
    if not any(version in _RECOGNIZED for version in versions):
        detail = f"must include at least one of {', '.join(_RECOGNIZED)}"
        causes.append(invalid(field, versions, detail))
    return causes
