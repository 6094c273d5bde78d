"""Starting a container of a pod: image, configuration, process, postStart hook."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kubewright.api.resource import NamespacedName, Object
from kubewright.local.node.containers import ContainerRecord, Role, Terminated, Waiting, is_finite
from kubewright.local.node.environment import ConfigError, build_environment, expand
from kubewright.local.node.image.image import Image
from kubewright.local.node.image_puller import ensure_image
from kubewright.local.node.node_context import NodeContext
from kubewright.local.node.pod_files import build_hosts, build_resolver
from kubewright.local.node.resources import build_resources
from kubewright.local.node.runtime import (
    ContainerConfig,
    Mount,
    RunningContainer,
    Sandbox,
    StartError,
)
from kubewright.local.node.security import build_security
from kubewright.local.node.sub_path import LeavesVolume, prepare_sub_path
from kubewright.local.node.volumes import Volume, plan_container_mounts

RETRY_SECONDS = 2.0
TERMINATION_LOG = "/dev/termination-log"
MAX_TERMINATION_MESSAGE = 4096
NEVER = datetime.fromtimestamp(0, UTC)
"""When a container started that did not: container runtimes say the beginning of the epoch."""


class ContainerStarter:
    """Starts the containers of one pod."""

    def __init__(self, context: NodeContext, uid: str) -> None:
        self._context = context
        self._folder = context.pod_folder(uid)

    async def start(
        self,
        pod: Object,
        record: ContainerRecord,
        sandbox: Sandbox,
        volumes: Mapping[str, Volume],
        others: Sequence[ContainerRecord] = (),
    ) -> RunningContainer | None:
        """Start a container; None leaves the record with the reason and a time to try again.

        `others` are the pod's containers, of which an ephemeral one may name one as its target. The
        postStart hook has not run yet.
        """
        image = await ensure_image(self._context, pod, record)
        if image is None:
            return None
        record.image = image
        event = self._context.recorder.container_event
        try:
            config = await self._build_config(pod, record, image, sandbox, volumes)
            config = msgspec.structs.replace(config, beside=find_target(record, others))
        except ConfigError as error:
            event(pod, record, "Warning", "Failed", f"Error: {error}")
            record.state = Waiting("CreateContainerConfigError", str(error))
            record.retry_at = self._context.clock.monotonic() + RETRY_SECONDS
            return None
        event(pod, record, "Normal", "Created", "Container created")
        try:
            return await self._context.runtime.start_container(sandbox, config)
        except StartError as error:
            event(pod, record, "Warning", "Failed", f"Error: {error.message}")
            now = self._context.clock.now()
            name = f"kubewright://{uuid.uuid4().hex}"
            record.state = Terminated(128, error.reason, error.message, NEVER, now, name)
            record.failure = Waiting("RunContainerError", error.message)
            return None

    async def _build_config(
        self,
        pod: Object,
        record: ContainerRecord,
        image: Image,
        sandbox: Sandbox,
        volumes: Mapping[str, Volume],
    ) -> ContainerConfig:
        spec, context = record.spec, self._context
        pod = with_addresses(pod, sandbox.address, context.runtime.host_address)
        references = await context.read_references(pod)
        services, node = context.services(), context.node()
        variables = await asyncio.to_thread(
            build_environment,
            pod,
            spec,
            references,
            services=services,
            node=node,
            read_file=lambda name, path: read_volume_file(volumes, name, path),
        )
        security = build_security(pod, spec, image, is_one_uid=context.runtime.is_one_uid)
        mounts = await asyncio.to_thread(
            lambda: [*plan_container_mounts(spec, volumes, variables, prepare_sub_path)]
        )
        mounts += await asyncio.to_thread(self._write_files, pod, record, sandbox.address)
        key = NamespacedName.of(pod)
        attempt = record.attempt
        return ContainerConfig(
            name=record.name,
            attempt=attempt,
            image=image,
            argv=build_argv(spec, image, variables),
            env={**image.env, "HOSTNAME": sandbox.identity.hostname, **variables},
            workdir=spec.get("workingDir") or image.workdir,
            security=security,
            log=context.log_path(key, sandbox.identity.uid, record.name, attempt),
            mounts=without_covered(mounts),
            is_finite=is_finite(pod, record.role),
            stdin=bool(spec.get("stdin")),
            stdin_once=bool(spec.get("stdinOnce")),
            tty=bool(spec.get("tty")),
            resources=build_resources(pod, spec),
        )

    def _write_files(self, pod: Object, record: ContainerRecord, address: str) -> list[Mount]:
        """Write the node's own files for a container, and plan where it sees them."""
        context, folder = self._context, self._folder / "etc"
        folder.mkdir(parents=True, exist_ok=True)
        hosts, resolver = folder / "hosts", folder / "resolv.conf"
        domain = context.cluster_domain
        hosts.write_text(build_hosts(pod, address, domain, read_if_there(Path("/etc/hosts"))))
        dns = context.cluster_dns() or context.runtime.host_address
        built = build_resolver(pod, dns, domain, read_if_there(Path("/etc/resolv.conf")))
        resolver.write_text(str(built))
        for problem in built.problems:
            context.recorder.event(pod, "Warning", "DNSConfigForming", problem)
        message = self.termination_file(record)
        message.parent.mkdir(parents=True, exist_ok=True)
        message.write_text("")
        message.chmod(0o666)
        path = record.spec.get("terminationMessagePath") or TERMINATION_LOG
        return [
            Mount("/etc/hosts", hosts),
            Mount("/etc/resolv.conf", resolver),
            Mount(path, message),
        ]

    def termination_file(self, record: ContainerRecord) -> Path:
        """The file that a container sees as its terminationMessagePath."""
        return self._folder / "containers" / record.name / "termination-log"


def read_if_there(file: Path) -> str:
    """Return the text of a file of the machine; "" if it has no such file."""
    return file.read_text() if file.exists() else ""


def find_target(record: ContainerRecord, others: Sequence[ContainerRecord]) -> str:
    """Return the id of the container that an ephemeral one is to look into; "" for none.

    Raises:
        ConfigError: there is none of that name, or it has not run.
    """
    name = record.spec.get("targetContainerName")
    if record.role is not Role.EPHEMERAL or not name:
        return ""
    target = next((other for other in others if other.name == name and other.container_id), None)
    if target is None:
        raise ConfigError(f"unable to find target container {name}")
    return target.container_id.removeprefix("kubewright://")


def build_argv(container: Object, image: Image, variables: Mapping[str, str]) -> list[str]:
    """Build the command line: `command` replaces the entry point, `args` the image's command.

    Raises:
        ConfigError: neither the container nor the image names a command.
    """
    command, args = container.get("command"), container.get("args")
    head = [expand(word, variables) for word in command] if command else list(image.entrypoint)
    if args:
        tail = [expand(word, variables) for word in args]
    else:
        tail = [] if command else list(image.cmd)
    if not head and not tail:
        raise ConfigError("no command specified")
    return [*head, *tail]


def read_volume_file(volumes: Mapping[str, Volume], name: str, path: str) -> str | None:
    """Read a file of a volume as the agent reaches it; None if it is not there.

    Raises:
        ConfigError: there is no such volume.
    """
    volume = volumes.get(name)
    if volume is None:
        raise ConfigError(f'cannot find the volume "{name}" referenced by FileKeyRef')
    try:
        return (volume.reached / prepare_sub_path(volume.reached, path)).read_text()
    except (LeavesVolume, OSError, UnicodeDecodeError):
        return None


def without_covered(mounts: list[Mount]) -> list[Mount]:
    """Leave only the first mount at each place: a pod's own goes before the node's files."""
    chosen: dict[str, Mount] = {}
    for mount in mounts:
        chosen.setdefault(mount.target.rstrip("/") or "/", mount)
    return list(chosen.values())


def with_addresses(pod: Object, address: str, host: str) -> Object:
    """Return a pod whose status has the addresses that the API server may not know yet."""
    status = {
        **(pod.get("status") or {}),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
    }
    return {**pod, "status": status}
