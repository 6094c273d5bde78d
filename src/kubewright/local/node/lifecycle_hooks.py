"""Lifecycle hooks of a container: commands, requests, sleeps."""

from __future__ import annotations

from collections.abc import Sequence

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node.containers import ContainerRecord
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.runtime import ProbeResult, RunningContainer, Sandbox, StartError

MAX_HOOK_SECONDS = 3600.0
PLAIN_ANSWER = "server gave HTTP response to HTTPS client"


class HookFailed(Exception):
    """A lifecycle hook ended badly; worded as the kubelet words it."""


async def run_hook(
    context: NodeContext,
    pod: Object,
    record: ContainerRecord,
    container: RunningContainer,
    sandbox: Sandbox,
    hook: Object,
) -> None:
    """Run a lifecycle hook in a container.

    Raises:
        HookFailed: the command or the request failed, or the kind of hook is none (tcpSocket).
    """
    if action := hook.get("exec"):
        await _run_command(context, pod, record, container, action.get("command") or ())
    elif action := hook.get("httpGet"):
        await _send_request(context, pod, record, container, sandbox, action)
    elif action := hook.get("sleep"):
        await context.clock.sleep(float(action.get("seconds") or 0))
    else:
        raise HookFailed(f"Cannot run handler: invalid handler: {', '.join(hook)}")


async def _run_command(
    context: NodeContext,
    pod: Object,
    record: ContainerRecord,
    container: RunningContainer,
    command: Sequence[str],
) -> None:
    words, output = " ".join(command), ""
    try:
        result = await context.runtime.execute(container, command)
        if not result.exit_code:
            return
        output = result.output
        error = f"command '{words}' exited with {result.exit_code}: "
    except StartError as failure:
        error = failure.message
    text = output.replace("\n", "\\n")
    about = _name(pod, record)
    raise HookFailed(
        f'Exec lifecycle hook ([{words}]) for {about} failed - error: {error}, message: "{text}"'
    )


async def _send_request(
    context: NodeContext,
    pod: Object,
    record: ContainerRecord,
    container: RunningContainer,
    sandbox: Sandbox,
    action: Object,
) -> None:
    """Send the request; any answer is a success, whatever its status."""

    async def ask(scheme: str) -> ProbeResult:
        agent = [{"name": "User-Agent", "value": "kube-lifecycle/1.37"}]
        headers = action.get("httpHeaders") or []
        is_named = any(header["name"].lower() == "user-agent" for header in headers)
        request = {**action, "scheme": scheme}
        request["httpHeaders"] = headers if is_named else [*agent, *headers]
        probe = {"httpGet": request, "timeoutSeconds": MAX_HOOK_SECONDS}
        return await context.runtime.probe(container, sandbox, probe, named_ports(record.spec))

    answer = await ask(action.get("scheme") or "HTTP")
    if PLAIN_ANSWER in answer.output:
        plain = await ask("HTTP")
        if plain.has_answer:
            where = f"{action.get('host') or sandbox.address}:{action['port']}"
            note = f"request to HTTPS lifecycle hook {where} got HTTP response, "
            note += "retry with HTTP succeeded"
            context.recorder.event(pod, "Warning", "LifecycleHTTPFallback", note)
        answer = plain
    if not answer.has_answer:
        path, about = action.get("path") or "", _name(pod, record)
        raise HookFailed(
            f"HTTP lifecycle hook ({path}) for {about} failed - error: {answer.output}"
        )


def _name(pod: Object, record: ContainerRecord) -> str:
    key = NamespacedName.of(pod)
    full_name = f"{key.name}_{key.namespace}({pod['metadata']['uid']})"
    return f'Container "{record.name}" in Pod "{full_name}"'


def named_ports(container: Object) -> dict[str, int]:
    """Return a container's ports by name."""
    ports = container.get("ports") or ()
    return {port["name"]: port["containerPort"] for port in ports if port.get("name")}
