"""`kubewright explain`: tell what an operator wants of an object, did last, and what is missing."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubewright.api.errors import ConfigurationError, NotFound
from kubewright.cli.command import Commands, add_command, add_output_flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubewright.api.resource import Object

EXAMPLES = """\
  # Why is it not ready? (the operator runs on this machine)
  kubewright explain memcached/cache -n team-a

  # The same of an operator in a cluster that serves --debug-bind-address 127.0.0.1:8082
  kubectl port-forward deployment/memcached-operator 8082 &
  kubewright explain memcached/cache --address 127.0.0.1:8082"""

_TIMEOUT_SECONDS = 5
_IN_WORDS = {
    "success": "it succeeded",
    "requeue_after": "it succeeded, and asked to be called again",
    "requeue": "it raced with somebody else",
    "error": "it failed",
    "terminal": "it failed, and waits for a change",
}


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "explain",
        "Tell what an operator wants of an object, and what it did last",
        explain,
        examples=EXAMPLES,
    )
    parser.add_argument("object", metavar="KIND/NAME", help="such as memcached/cache")
    parser.add_argument("-n", "--namespace", default="", help="its namespace (default: any)")
    parser.add_argument(
        "--address",
        metavar="HOST:PORT",
        help="where the operator tells of it (default: every operator that runs on this machine)",
    )
    add_output_flag(parser)


def explain(options: argparse.Namespace) -> int:
    """Print the story of one object, or its records as JSON."""
    kind, slash, name = options.object.partition("/")
    if not slash or not kind or not name:
        raise ConfigurationError(f"{options.object}: write it as KIND/NAME")
    query = {"kind": kind, "name": name, "namespace": options.namespace}
    found = [obj for address in _find_addresses(options) for obj in _ask(address, query)]
    if not found:
        where = f" in namespace {options.namespace}" if options.namespace else ""
        raise NotFound(f"no operator has reconciled {options.object}{where} lately")
    places = {obj["namespace"] for obj in found}
    if len(places) > 1:
        raise ConfigurationError(
            f"{options.object} is in several namespaces, choose one with -n: "
            f"{', '.join(sorted(places))}"
        )
    if options.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        now = datetime.now(UTC)
        print("\n\n".join("\n".join(tell(obj, now)) for obj in found))
    return 0


def _find_addresses(options: argparse.Namespace) -> list[str]:
    from kubewright.cli.running_operator import find_addresses

    addresses = [options.address] if options.address else find_addresses()
    if not addresses:
        raise ConfigurationError(
            "no operator runs on this machine: start one with 'kubewright run', or say where one "
            "tells what it did, with --address"
        )
    return addresses


def _ask(address: str, query: dict[str, str]) -> list[Object]:
    from urllib.error import URLError
    from urllib.parse import urlencode
    from urllib.request import ProxyHandler, build_opener

    import msgspec

    from kubewright.cli.probes import RECORDS_PATH

    # No proxy: it is this machine, or a port that kubectl forwards to it.
    opener = build_opener(ProxyHandler({}))
    url = f"http://{address}{RECORDS_PATH}?{urlencode(query)}"
    try:
        with opener.open(url, timeout=_TIMEOUT_SECONDS) as answer:
            objects: list[Object] = msgspec.json.decode(answer.read())["objects"]
    except (URLError, OSError, msgspec.DecodeError, KeyError) as error:
        raise ConfigurationError(f"no operator answers at {address}: {error}") from error
    return objects


def tell(obj: Object, now: datetime) -> Iterator[str]:
    """Write the story of an object: how it is, what it wants, what was done last and before."""
    where = f" in {obj['namespace']}" if obj["namespace"] else ""
    yield f"{obj['kind']} {obj['name']}{where}, by {obj['controller']}"
    yield from _tell_state(obj)
    if obj["wanted"] is not None:
        yield "Wants:" if obj["wanted"] else "Wants: nothing"
        yield from (f"  {child}" for child in obj["wanted"])
    last, *before = obj["reconciles"]
    yield "Last reconcile:"
    yield from (f"  {line}" for line in _tell_reconcile(last, now))
    if before and not _did_something(last) and (busy := _find_busy(before)):
        yield "The last one that did something:"
        yield from (f"  {line}" for line in _tell_reconcile(busy, now))
        before.remove(busy)
    if before:
        yield "Others before:"
        yield from (f"  {_tell_briefly(record, now)}" for record in before)


def _did_something(record: dict[str, Any]) -> bool:
    return bool(record["plan"] or record["writes"] or record["failure"])


def _find_busy(records: list[dict[str, Any]]) -> dict[str, Any] | None:
    return next((record for record in records if _did_something(record)), None)


def _tell_state(obj: Object) -> Iterator[str]:
    if not obj["exists"]:
        yield "It does not exist any more."
        return
    if obj["deleting"]:
        yield "It is being deleted."
    conditions = {condition.get("type"): condition for condition in obj["conditions"]}
    for type, condition in conditions.items():
        message = condition.get("message") or ""
        reason = f"{condition.get('reason', '')}: {message}" if message else condition.get("reason")
        yield f"{type}: {condition.get('status')} ({reason})"
    seen = obj["observedGeneration"]
    if seen is not None and obj["generation"] and seen < obj["generation"]:
        yield f"Its last change (generation {obj['generation']}) is not worked on yet."


def _tell_reconcile(record: dict[str, Any], now: datetime) -> Iterator[str]:
    yield _tell_briefly(record, now)
    yield f"reconcileID: {record['id']}"
    yield f"woken by: {'; '.join(record['triggers'])}"
    yield f"read: {', '.join(f'{name} at {version}' for name, version in _versions(record))}"
    if record["waited"] is not None:
        end = "" if record["settled"] else ", in vain"
        yield f"waited {record['waited']:.3f} s to see what it wrote before{end}"
    yield "plan:" if record["plan"] else "plan: nothing to do"
    yield from (f"  {step}" for step in record["plan"])
    if record["writes"]:
        yield "wrote:"
        for write in record["writes"]:
            took = f"{write['seconds'] * 1000:.0f} ms"
            yield f"  {write['verb']} {write['object']}: {write['answer']} ({took})"
    if record["failure"]:
        yield f"failed: {record['failure']}"


def _versions(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, version or "no version") for name, version in record["versions"].items()]


def _tell_briefly(record: dict[str, Any], now: datetime) -> str:
    ago = (now - datetime.fromisoformat(record["ended"])).total_seconds()
    text = f"{ago:.0f} s ago, in {record['seconds'] * 1000:.0f} ms: {_IN_WORDS[record['outcome']]}"
    if record["failures"]:
        text += f" {record['failures']} times in a row"
    if record["retryAfter"] is not None:
        text += f"; next in {record['retryAfter']:.3g} s"
    if record["repeats"]:
        text += f" (and {record['repeats']} more with nothing to do)"
    if record["failure"]:
        text += f": {record['failure'].partition(chr(10))[0][:120]}"
    return text
