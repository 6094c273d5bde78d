"""Run the player as `python -m conformance.sessions`."""

import sys

from conformance.sessions.command import main

if __name__ == "__main__":
    sys.exit(main())
