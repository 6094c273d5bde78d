"""Small archives of images, as container engines write them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "config": {
        "Env": ["PATH=/bin", "A=1"],
        "Entrypoint": ["/bin/app"],
        "Cmd": ["run"],
        "User": "app",
        "WorkingDir": "/srv",
        "StopSignal": "SIGQUIT",
    },
}
PASSWD = b"root:x:0:0::/root:/bin/sh\napp:x:7:8::/:/bin/sh\n"


def build_tar(entries: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    """Build a tar of files, and of members that are given as they are."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, entry in entries.items():
            if isinstance(entry, tarfile.TarInfo):
                entry.name = name
                tar.addfile(entry)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(entry)
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(entry))
    return buffer.getvalue()


def link(target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    """Build a link, symbolic or hard."""
    member = tarfile.TarInfo()
    member.type, member.linkname = kind, target
    return member


def folder(mode: int = 0o755) -> tarfile.TarInfo:
    """Build a folder."""
    member = tarfile.TarInfo()
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member


def write_saved(path: Path, layers: list[bytes], tags: list[str]) -> None:
    """Write what `docker save` writes."""
    files: dict[str, bytes | tarfile.TarInfo] = {"abc.json": json.dumps(CONFIG).encode()}
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    files |= dict(zip(names, layers, strict=True))
    entry = {"Config": "abc.json", "RepoTags": tags, "Layers": names}
    path.write_bytes(build_tar({**files, "manifest.json": json.dumps([entry]).encode()}))


def write_layout(path: Path, layer: bytes, name: str | None = None) -> None:
    """Write an OCI layout with an index of two machines, as a tar."""
    files: dict[str, bytes | tarfile.TarInfo] = {}

    def blob(data: bytes, **more: Any) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        files[f"blobs/sha256/{digest}"] = data
        return {"digest": f"sha256:{digest}", "size": len(data), **more}

    def encode(value: object) -> bytes:
        return json.dumps(value).encode()

    manifest = {"config": blob(encode(CONFIG)), "layers": [blob(gzip.compress(layer))]}
    of_machines = [
        blob(
            encode({"config": {}, "layers": []}), platform={"os": "linux", "architecture": "s390x"}
        ),
        blob(encode(manifest), platform={"os": "linux", "architecture": "amd64"}),
    ]
    kind = "application/vnd.oci.image.index.v1+json"
    entry = blob(encode({"manifests": of_machines}), mediaType=kind)
    if name:
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    path.write_bytes(build_tar({**files, "index.json": encode({"manifests": [entry]})}))
