"""Build the real Kubernetes from its Go modules: the control plane, and with --node a node too.

    python tools/real_cluster.py [--shared FOLDER] [--node]

The recipes lie in the folder `realcluster` under --shared. Binaries go to $RC/bin, images to
$RC/images, where $RC is ~/.cache/realcluster by default. On two cores the control plane takes 14
minutes the first time, the node with its images another half an hour; seconds once all is cached.
Exit code 3 says that this machine cannot build them, and why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "coredns")
IMAGES = ("pause", "busybox", "memcached")
CANNOT = 3


def main() -> int:
    """Build what is missing."""
    parser = argparse.ArgumentParser(description="Build the real Kubernetes from Go modules.")
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--node", action="store_true", help="kubelet, containerd and images, too")
    options = parser.parse_args()
    recipes = options.shared.resolve() / "realcluster"
    cache = Path(os.environ.get("RC", Path.home() / ".cache" / "realcluster"))
    components = (*CONTROL_PLANE, "kubelet") if options.node else CONTROL_PLANE
    missing = [name for name in components if not (cache / "bin" / name).exists()]
    steps = [["build.sh"]] if missing else []
    if options.node:
        if any(not (cache / "bin" / name).exists() for name in NODE):
            steps.append(["build-node.sh"])
        images = [name for name in IMAGES if not (cache / "images" / f"{name}.tar").exists()]
        if images:
            steps.append(["images.sh", *images])
    if steps and (obstacle := find_obstacle(recipes, needs_root=options.node)):
        print(f"skipped: {obstacle}")
        return CANNOT
    for script, *arguments in steps:
        print(f"running {script}: the first time it takes long", flush=True)
        environment = {**os.environ, "COMPONENTS": " ".join(missing)}
        command = ["bash", str(recipes / script), *arguments]
        if code := subprocess.run(command, env=environment, check=False).returncode:
            return code
    return 0


def find_obstacle(recipes: Path, *, needs_root: bool) -> str:
    """Return why this machine cannot build; "" where it can."""
    if shutil.which("go") is None:
        return "there is no Go on this machine"
    if not recipes.exists():
        return f"no {recipes}; name its folder with SHARED=…"
    if needs_root and os.geteuid() != 0:
        return "a real node and its images need root"
    return ""


if __name__ == "__main__":
    sys.exit(main())
