"""`kubewright version`."""

from __future__ import annotations

import argparse

from kubewright.cli.command import Commands, add_command, add_output_flag

KUBERNETES_VERSION = "v1.37.2"


def add_to(commands: Commands) -> None:
    """Declare the command."""
    parser = add_command(commands, "version", "Print the version", print_version)
    add_output_flag(parser)


def print_version(options: argparse.Namespace) -> int:
    """Print the versions of Kubewright, of the Kubernetes API that it serves, and of Python."""
    # Read here and not above: every other command would wait for them.
    import platform

    from kubewright.version import VERSION

    versions = {
        "kubewright": f"v{VERSION}",
        "kubernetes": KUBERNETES_VERSION,
        "python": f"v{platform.python_version()}",
    }
    if options.output == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(versions)).decode())
    else:
        print(f"Kubewright Version: {versions['kubewright']}")
        print(f"Kubernetes API Version: {versions['kubernetes']}")
        print(f"Python Version: {versions['python']}")
    return 0
