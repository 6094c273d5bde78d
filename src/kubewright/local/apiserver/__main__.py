"""Run an API server alone.

python -m kubewright.local.apiserver --dir D [--port P] [--persistent]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from kubewright.client import event_loop
from kubewright.local.apiserver.serving import ServerOptions, serve


def main() -> int:
    """Serve until SIGTERM or SIGINT; print one line when ready."""
    parser = argparse.ArgumentParser(prog="python -m kubewright.local.apiserver")
    parser.add_argument("--dir", type=Path, required=True, help="folder of the cluster")
    parser.add_argument("--port", type=int, default=0, help="port to listen at (default: free)")
    parser.add_argument("--persistent", action="store_true", help="keep objects in the folder")
    parser.add_argument("--fsync", action="store_true", help="wait for the disk at each write")
    parser.add_argument(
        "--authorization-mode",
        choices=["AlwaysAllow", "RBAC"],
        default="RBAC",
        help="who may do what (default: what roles and bindings allow)",
    )
    arguments = parser.parse_args()
    options = ServerOptions(
        folder=arguments.dir,
        port=arguments.port,
        persistent=arguments.persistent,
        fsync=arguments.fsync,
        authorization=arguments.authorization_mode,
    )
    event_loop.run(_run(options))
    return 0


async def _run(options: ServerOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(options) as running:
        folder = options.folder or Path()
        path = running.kubeconfig(folder / "kubeconfig")
        sys.stdout.write(f"ready at {running.url}, kubeconfig {path}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    sys.exit(main())
