"""Build etcd, kube-apiserver, kube-controller-manager and kube-scheduler from their Go modules.

    python tools/real_control_plane.py [--shared FOLDER]

The recipe lies in the folder `realcluster` under --shared. The binaries go to $RC/bin, by default
~/.cache/realcluster/bin: 14 minutes on two cores the first time, seconds once Go has cached them.
Exit code 3 says that this machine cannot build them, and why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
CANNOT = 3


def main() -> int:
    """Build what is missing."""
    parser = argparse.ArgumentParser(description="Build the real control plane from Go modules.")
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    recipe = parser.parse_args().shared.resolve() / "realcluster" / "build.sh"
    cache = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster"))
    missing = [name for name in COMPONENTS if not (cache / "bin" / name).exists()]
    if not missing:
        return 0
    if shutil.which("go") is None:
        print("conformance skipped: there is no Go on this machine")
        return CANNOT
    if not recipe.exists():
        print(f"conformance skipped: no {recipe}; name its folder with SHARED=…")
        return CANNOT
    print(f"building {' '.join(missing)}: up to 14 minutes the first time", flush=True)
    environment = {**os.environ, "COMPONENTS": " ".join(missing)}
    return subprocess.run(["bash", str(recipe)], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
