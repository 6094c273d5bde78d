"""Getting a container's image by its pull policy, with the events and states of the kubelet."""

from __future__ import annotations

from kubewright.api.resource import Object
from kubewright.local.node.containers import ContainerRecord, Waiting
from kubewright.local.node.image.image import Image, ImageError
from kubewright.local.node.image.reference import InvalidReference
from kubewright.local.node.node_context import NodeContext

SOON_SECONDS = 1.0


def pull_policy(container: Object) -> str:
    """Return a container's pull policy; what is not set follows from the tag."""
    if policy := container.get("imagePullPolicy"):
        return str(policy)
    name = container["image"].rpartition("/")[2]
    return "Always" if ":" not in name or name.endswith(":latest") else "IfNotPresent"


async def ensure_image(context: NodeContext, pod: Object, record: ContainerRecord) -> Image | None:
    """Return a container's image; None leaves the record waiting, with a time to try again."""
    name, now = record.spec["image"], context.clock.monotonic()

    def fail(reason: str, message: str, event: str, *, delay: float = 10.0) -> None:
        context.recorder.container_event(pod, record, "Warning", event, message)
        context.recorder.container_event(pod, record, "Warning", "Failed", f"Error: {reason}")
        record.state = Waiting(reason, message)
        record.retry_at = context.clock.monotonic() + delay

    if record.pull.is_waiting(now):
        _back_off(context, pod, record)
        return None
    policy = pull_policy(record.spec)
    try:
        image = await context.runtime.find_image(name)
        if image is not None and policy != "Always":
            _tell_present(context, pod, record, image)
            return image
        if policy == "Never":
            if image is None:
                message = f'Container image "{name}" is not present with pull policy of Never'
                fail("ErrImageNeverPull", message, "ErrImageNeverPull")
            return image
        return await _pull(context, pod, record)
    except InvalidReference as error:
        fail("InvalidImageName", str(error), "InspectFailed")
    except ImageError as error:
        record.pull.fail(now)
        if not record.pull.is_waiting(now):
            record.pull.fail(now)
        fail(error.reason, f'Failed to pull image "{name}": {error}', "Failed", delay=SOON_SECONDS)
        record.state = Waiting(error.reason, str(error))
    return None


async def _pull(context: NodeContext, pod: Object, record: ContainerRecord) -> Image:
    name = record.spec["image"]
    event = context.recorder.container_event
    event(pod, record, "Normal", "Pulling", f'Pulling image "{name}"')
    began = context.clock.monotonic()
    image = await context.runtime.pull_image(name)
    took = f"{round(context.clock.monotonic() - began, 3):g}s"
    event(
        pod,
        record,
        "Normal",
        "Pulled",
        f'Successfully pulled image "{name}" in {took} ({took} including waiting). '
        f"Image size: {image.size} bytes.",
    )
    _tell_note(context, pod, record, image)
    return image


def _back_off(context: NodeContext, pod: Object, record: ContainerRecord) -> None:
    name, event = record.spec["image"], context.recorder.container_event
    text = f'Back-off pulling image "{name}"'
    event(pod, record, "Normal", "BackOff", text)
    event(pod, record, "Warning", "Failed", "Error: ImagePullBackOff")
    before = record.state
    if isinstance(before, Waiting) and before.reason != "ImagePullBackOff":
        record.state = Waiting("ImagePullBackOff", f"{text}: {before.reason}: {before.message}")
    record.retry_at = record.pull.until


def _tell_present(context: NodeContext, pod: Object, record: ContainerRecord, image: Image) -> None:
    text = (
        f'Container image "{record.spec["image"]}" already present on machine '
        "and can be accessed by the pod"
    )
    context.recorder.container_event(pod, record, "Normal", "Pulled", text)
    _tell_note(context, pod, record, image)


def _tell_note(context: NodeContext, pod: Object, record: ContainerRecord, image: Image) -> None:
    if image.note:
        context.recorder.container_event(pod, record, "Normal", "ImageServed", image.note)
