"""The process of a cluster in the background; `daemon.start` runs it.

python -m kubewright.local.cluster REPORT_FD OPTIONS_JSON
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from kubewright.api.errors import KubewrightError, known_causes
from kubewright.local.cluster import supervisor
from kubewright.local.cluster.daemon import Report
from kubewright.local.cluster.directory import ClusterRecord
from kubewright.local.cluster.options import ClusterOptions


def _decode_path(kind: type, value: Any) -> Any:
    return kind(value) if kind is Path else value


def main() -> int:
    """Run the cluster; tell the starter when it is ready or why it failed."""
    descriptor = int(sys.argv[1])
    options = msgspec.json.decode(sys.argv[2], type=ClusterOptions, dec_hook=_decode_path)

    def report(value: Report) -> None:
        os.write(descriptor, msgspec.json.encode(value) + b"\n")
        os.close(descriptor)

    def on_ready(record: ClusterRecord) -> None:
        report(Report(record=record))

    try:
        return supervisor.run(options, on_ready)
    except (KubewrightError, ExceptionGroup) as error:
        report(Report(error="; ".join(map(str, known_causes(error)))))
        return 1


if __name__ == "__main__":
    sys.exit(main())
