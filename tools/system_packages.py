"""Make sure that Debian packages are there: install them as root, else say which command to run.

    python3 tools/system_packages.py [--optional] PACKAGE…

With --optional, a package that is missing and cannot be installed is reported, not an error: the
demo and the tests go on with simulated pods. Runs before the virtual environment exists, so it
imports nothing but the standard library.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable


def has_program(name: str) -> bool:
    """Tell whether a program of administrators is there, which ordinary users' $PATH leaves out."""
    return shutil.which(name, path=f"{os.defpath}:/sbin:/usr/sbin") is not None


CHECKS: dict[str, Callable[[], bool]] = {
    "python3-venv": lambda: importlib.util.find_spec("ensurepip") is not None,
    "memcached": lambda: shutil.which("memcached") is not None,
    "bubblewrap": lambda: shutil.which("bwrap") is not None,
    "iproute2": lambda: has_program("ip"),
    "runc": lambda: has_program("runc"),
    "containernetworking-plugins": lambda: os.path.exists("/usr/lib/cni/bridge"),
    "iptables": lambda: has_program("iptables"),
    "conntrack": lambda: has_program("conntrack"),
    "socat": lambda: has_program("socat"),
    "debootstrap": lambda: has_program("debootstrap"),
}


def install(packages: list[str]) -> bool:
    """Install with apt, without the packages' services being started."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *packages]
    print(f"installing Debian packages: {' '.join(packages)}", flush=True)
    for step in (["apt-get", "update", "-q"], command):
        result = subprocess.run(step, env=environment, capture_output=True, text=True, check=False)
        if result.returncode:
            print(result.stderr.strip(), file=sys.stderr)
    return result.returncode == 0


def main() -> int:
    """Check, install, and report what stays missing."""
    parser = argparse.ArgumentParser(description="Make sure that Debian packages are there.")
    parser.add_argument("--optional", action="store_true", help="only report what is missing")
    parser.add_argument("packages", nargs="+", choices=sorted(CHECKS), metavar="PACKAGE")
    options = parser.parse_args()
    missing = [package for package in options.packages if not CHECKS[package]()]
    can_install = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if missing and can_install and install(missing):
        missing = [package for package in missing if not CHECKS[package]()]
    if missing:
        print(f"missing: {' '.join(missing)}", file=sys.stderr)
        print(f"hint: sudo apt-get install -y {' '.join(missing)}", file=sys.stderr)
    return 0 if options.optional or not missing else 1


if __name__ == "__main__":
    sys.exit(main())
