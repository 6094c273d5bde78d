"""`kubewright local image`: the images that local pods run from."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from kubewright.api.errors import ConfigurationError
from kubewright.cli.command import (
    Commands,
    HelpFormatter,
    add_command,
    add_output_flag,
    format_table,
)

if TYPE_CHECKING:
    from kubewright.local.node.image.image import Image

LOAD_EXAMPLES = """\
  # An image of a container engine
  docker save registry.example.com/app:1 -o app.tar
  kubewright local image load app.tar

  # An OCI archive whose image has no name
  kubewright local image load app-oci.tar --name app:1"""


def add_to(local: Commands) -> None:
    """Declare the command and those below it."""
    parser = local.add_parser(
        "image",
        help="Load and list the images of local pods",
        description="Load and list the images of local pods. All clusters of a user share them.",
        formatter_class=HelpFormatter,
    )
    commands = parser.add_subparsers(title="available commands", metavar="COMMAND", required=True)
    load = add_command(
        commands, "load", "Unpack the images of an archive", load_images, examples=LOAD_EXAMPLES
    )
    load.add_argument("archive", type=Path, help="a tar of `docker save`, or an OCI layout or tar")
    load.add_argument("--name", help="name of the image, before those in the archive")
    shown = add_command(commands, "list", "Show the images that are there", list_images)
    add_output_flag(shown)


def load_images(options: argparse.Namespace) -> int:
    """Unpack the images of an archive and print their names."""
    from kubewright.local.node.image.image import ImageError
    from kubewright.local.node.image.reference import InvalidReference
    from kubewright.local.node.image.store import ImageStore, default_folder

    try:
        names = ImageStore(default_folder()).load(options.archive, options.name)
    except (ImageError, InvalidReference) as error:
        raise ConfigurationError(str(error)) from error
    for name in names:
        print(f"loaded {name}")
    return 0


def list_images(options: argparse.Namespace) -> int:
    """Print the images that are there: loaded ones, and those that recipes made."""
    from kubewright.local.node.image.store import ImageStore, default_folder

    store = ImageStore(default_folder())
    found = [("archive", image) for image in store.loaded()]
    found += [("recipe", image) for image in store.made()]
    if options.output == "json":
        print(json.dumps([_describe(source, image) for source, image in found], indent=2))
        return 0
    rows = [[image.name, image.image_id, source] for source, image in found]
    print(format_table(["IMAGE", "ID", "SOURCE"], rows))
    return 0


def _describe(source: str, image: Image) -> dict[str, str]:
    return {"name": image.name, "id": image.image_id, "source": source}
