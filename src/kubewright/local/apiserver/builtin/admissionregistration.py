"""Rules of the admissionregistration.k8s.io group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kubewright.api.errors import Cause
from kubewright.api.resource import Object
from kubewright.local.apiserver.builtin.checks import (
    check_choice,
    check_present,
    check_qualified,
    check_selector,
)
from kubewright.local.apiserver.builtin.rules import Rules, Table
from kubewright.local.apiserver.builtin.table import AGE, UNSET, column, format_age
from kubewright.local.apiserver.field_error import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubewright.local.apiserver.formats import check_dns_subdomain
from kubewright.local.apiserver.lazy_module import lazy_module

if TYPE_CHECKING:
    from kubewright.local.apiserver import match_condition, policy_expressions
else:
    policy_expressions = lazy_module("kubewright.local.apiserver.policy_expressions")
    match_condition = lazy_module("kubewright.local.apiserver.match_condition")

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_POLICIES = ("Fail", "Ignore")
_MATCH = ("Equivalent", "Exact")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_MUTATIONS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_ACTIONS = ("Audit", "Deny", "Warn")
_FORM = "; desired format: https://host[/path]"


def _validate_webhooks(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, hook in enumerate(obj.get("webhooks") or ()):
        field, name = f"webhooks[{index}]", hook.get("name") or ""
        causes += _validate_webhook(hook, field)
        causes += _validate_versions(hook, f"{field}.admissionReviewVersions")
        if name in names:
            causes.append(duplicate(f"{field}.name", name))
        names.add(name)
    return causes


def _validate_webhook(hook: Object, field: str) -> list[Cause]:
    causes = _check_full_name(hook.get("name") or "", f"{field}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        causes += _validate_rule(rule, f"{field}.rules[{index}]")
    causes += check_choice(hook.get("failurePolicy"), _POLICIES, f"{field}.failurePolicy")
    causes += check_choice(hook.get("matchPolicy"), _MATCH, f"{field}.matchPolicy")
    effects = hook.get("sideEffects")
    if effects is None:
        detail = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        causes.append(required(f"{field}.sideEffects", detail))
    elif effects not in _SIDE_EFFECTS:
        causes.append(not_supported(f"{field}.sideEffects", effects, _SIDE_EFFECTS))
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{field}.timeoutSeconds", seconds, detail))
    for key in ("namespaceSelector", "objectSelector"):
        causes += check_selector(hook.get(key), f"{field}.{key}")
    policy = hook.get("reinvocationPolicy")
    causes += check_choice(policy, ("IfNeeded", "Never"), f"{field}.reinvocationPolicy")
    causes += validate_client_config(hook.get("clientConfig") or {}, f"{field}.clientConfig")
    for index, condition in enumerate(hook.get("matchConditions") or ()):
        place = f"{field}.matchConditions[{index}]"
        causes += check_present(condition, "expression", place)
        if text := condition.get("expression"):
            causes += match_condition.validate_condition(text, f"{place}.expression")
        causes += check_present(condition, "name", place)
        if name := condition.get("name"):
            causes += check_qualified(name, f"{place}.name")
    return causes


def _check_full_name(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    if faults := check_dns_subdomain(name):
        return [invalid(field, name, ",".join(faults))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid(field, name, detail)]
    return []


def _validate_versions(hook: Object, field: str) -> list[Cause]:
    versions = hook.get("admissionReviewVersions") or []
    if not versions:
        return [required(field, "must specify one of v1, v1beta1")]
    if not {"v1", "v1beta1"} & set(versions):
        return [invalid(field, versions, "must include at least one of v1, v1beta1")]
    return [
        invalid(f"{field}[{index}]", version, "duplicate version")
        for index, version in enumerate(versions)
        if version in versions[:index]
    ]


def _validate_rule(rule: Object, field: str) -> list[Cause]:
    causes = _check_wildcard(rule, "operations", "operations", field)
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            place = f"{field}.operations[{index}]"
            causes.append(not_supported(place, operation, _OPERATIONS))
    causes += _check_wildcard(rule, "apiGroups", "API groups", field)
    causes += _check_wildcard(rule, "apiVersions", "API versions", field)
    causes += _check_resources(rule.get("resources") or [], f"{field}.resources")
    return causes + check_choice(rule.get("scope"), _SCOPES, f"{field}.scope")


def _check_wildcard(rule: Object, key: str, text: str, field: str) -> list[Cause]:
    values = rule.get(key) or []
    if not values:
        return [required(f"{field}.{key}")]
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {text}"
        return [invalid(f"{field}.{key}", values, detail)]
    return []


def _check_resources(resources: list[str], field: str) -> list[Cause]:
    if not resources:
        return [required(field)]
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        return [invalid(field, resources, detail)]
    if "*" in resources and any("/" not in name and name != "*" for name in resources):
        detail = "if '*' is present, must not specify other resources without subresources"
        return [invalid(field, resources, detail)]
    return [
        required(f"{field}[{index}]") for index, resource in enumerate(resources) if not resource
    ]


def validate_client_config(config: Object, field: str) -> list[Cause]:
    """Return what is wrong with how a webhook is reached: a URL or a Service, not both."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(field, "exactly one of url or service is required")]
    if service is None:
        return _check_url(str(url), f"{field}.url")
    causes = check_present(service, "name", f"{field}.service")
    return causes + check_present(service, "namespace", f"{field}.service")


def _check_url(url: str, field: str) -> list[Cause]:
    parts = urlsplit(url)
    causes: list[Cause] = []
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_FORM}"
        causes.append(invalid(field, parts.scheme, detail))
    if not parts.netloc:
        causes.append(invalid(field, "", f"host must be specified{_FORM}"))
    if parts.username is not None:
        detail = "user information is not permitted in the URL"
        causes.append(invalid(field, parts.username, detail))
    if parts.fragment:
        detail = "fragments are not permitted in the URL"
        causes.append(invalid(field, parts.fragment, detail))
    if parts.query:
        detail = "query parameters are not permitted in the URL"
        causes.append(invalid(field, parts.query, detail))
    return causes


def _validate_policy(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = [] if spec.get("matchConstraints") else [required("spec.matchConstraints")]
    causes += check_choice(spec.get("failurePolicy"), _POLICIES, "spec.failurePolicy")
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        causes.append(required("spec.validations", detail))
    for index, validation in enumerate(spec.get("validations") or ()):
        causes += check_present(validation, "expression", f"spec.validations[{index}]")
    return causes + policy_expressions.validate_expressions(obj)


def _validate_mutating_policy(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes = [] if spec.get("matchConstraints") else [required("spec.matchConstraints")]
    causes += check_choice(spec.get("failurePolicy"), _POLICIES, "spec.failurePolicy")
    if not spec.get("mutations"):
        causes.append(required("spec.mutations", "mutations must contain at least one item"))
    for index, mutation in enumerate(spec.get("mutations") or ()):
        causes += _validate_mutation(mutation, f"spec.mutations[{index}]")
    causes += policy_expressions.validate_expressions(obj)
    if not spec.get("reinvocationPolicy"):
        return [*causes, required("spec.reinvocationPolicy")]
    return causes + check_choice(
        spec["reinvocationPolicy"], ("IfNeeded", "Never"), "spec.reinvocationPolicy"
    )


def _validate_mutation(mutation: Object, field: str) -> list[Cause]:
    chosen = mutation.get("patchType")
    if not chosen:
        return [required(f"{field}.patchType")]
    if chosen not in _MUTATIONS:
        return [not_supported(f"{field}.patchType", chosen, _MUTATIONS)]
    causes: list[Cause] = []
    for patch_type, key in _MUTATIONS.items():
        if patch_type != chosen and mutation.get(key):
            detail = f"must not be specified when patchType is {chosen}"
            causes.append(invalid(f"{field}.{key}", f"{{{key}}}", detail))
        elif patch_type == chosen and not mutation.get(key):
            detail = f"must be specified when patchType is {chosen}"
            causes.append(required(f"{field}.{key}", detail))
        elif patch_type == chosen:
            causes += check_present(mutation[key], "expression", f"{field}.{key}")
    return causes


def _validate_mutating_binding(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if (reference := spec.get("paramRef")) is not None:
        causes += _validate_parameters(reference, "spec.paramRef")
    return causes if spec.get("policyName") else [*causes, required("spec.policyName")]


def _validate_binding(obj: Object) -> list[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if (reference := spec.get("paramRef")) is not None:
        causes += _validate_parameters(reference, "spec.paramRef")
    actions = spec.get("validationActions") or []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            causes.append(not_supported(f"spec.validationActions[{index}]", action, _ACTIONS))
    if {"Deny", "Warn"} <= set(actions):
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure information"
            " in the API response and headers serves no purpose)"
        )
        causes.append(invalid("spec.validationActions", actions, detail))
    if not actions:
        causes.append(required("spec.validationActions"))
    return causes if spec.get("policyName") else [*causes, required("spec.policyName")]


def _validate_parameters(reference: Object, field: str) -> list[Cause]:
    causes: list[Cause] = []
    named, selecting = bool(reference.get("name")), reference.get("selector") is not None
    if named and selecting:
        detail = "name and selector are mutually exclusive"
        causes += [forbidden(f"{field}.{key}", detail) for key in ("name", "selector")]
    elif not named and not selecting:
        causes.append(required(field, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if action is None:
        return [*causes, required(f"{field}.parameterNotFoundAction")]
    return causes + check_choice(action, ("Allow", "Deny"), f"{field}.parameterNotFoundAction")


def _count(key: str) -> Callable[[Object, datetime], list[Any]]:
    return lambda obj, now: [len(obj.get(key) or ()), format_age(obj, now)]


def _policy_cells(key: str) -> Callable[[Object, datetime], list[Any]]:
    def cells(obj: Object, now: datetime) -> list[Any]:
        kind = obj["spec"].get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
        return [len(obj["spec"].get(key) or ()), shown, format_age(obj, now)]

    return cells


def _binding_cells(obj: Object, now: datetime) -> list[Any]:
    reference = obj["spec"].get("paramRef") or {}
    shown = UNSET
    if name := reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{name}"
    return [obj["spec"].get("policyName", ""), shown, format_age(obj, now)]


_WEBHOOKS = Rules(
    has_generation=True,
    allow_unconditional_update=False,
    validate=_validate_webhooks,
    table=Table((column("Webhooks", "integer"), AGE), _count("webhooks")),
)
_BINDING_TABLE = Table((column("PolicyName"), column("ParamRef"), AGE), _binding_cells)
RULES: Mapping[str, Rules] = {
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        validate=_validate_policy,
        status_resets=(("metadata",), ("spec",)),
        table=Table(
            (column("Validations", "integer"), column("ParamKind"), AGE),
            _policy_cells("validations"),
        ),
    ),
    "ValidatingAdmissionPolicyBinding": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        validate=_validate_binding,
        table=_BINDING_TABLE,
    ),
    "MutatingAdmissionPolicy": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        validate=_validate_mutating_policy,
        table=Table(
            (column("Mutations", "integer"), column("ParamKind"), AGE), _policy_cells("mutations")
        ),
    ),
    "MutatingAdmissionPolicyBinding": Rules(
        has_generation=True,
        allow_unconditional_update=False,
        validate=_validate_mutating_binding,
        table=_BINDING_TABLE,
    ),
}
