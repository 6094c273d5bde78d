"""`python -m kubewright.local.metrics_server`: the metrics API for a cluster of any kind."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from kubewright.client import event_loop
from kubewright.client.connection import connect
from kubewright.client.kubeconfig import KubeConfig
from kubewright.local.metrics_server.server import MetricsServer
from kubewright.runtime.manager import Manager
from kubewright.runtime.signals import run_until_signal


def main() -> None:
    """Serve metrics until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="Serve metrics.k8s.io for a cluster.")
    parser.add_argument("--kubeconfig", type=Path, help="the cluster; by default as kubectl does")
    parser.add_argument("--host", default="localhost", help="this machine, for the API server")
    parser.add_argument("--address", default="127.0.0.1", help="where to listen")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    event_loop.run(run_until_signal(_serve(options.kubeconfig, options.host, options.address)))


async def _serve(kubeconfig: Path | None, host: str, address: str) -> None:
    client = connect(KubeConfig.load(kubeconfig))
    manager = Manager(client)
    manager.add(MetricsServer(manager.environment, host=host, address=address))
    try:
        await manager.run()
    finally:
        await client.close()


if __name__ == "__main__":
    main()
