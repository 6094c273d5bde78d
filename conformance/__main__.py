"""Run the checker as `python -m conformance`."""

import sys

from conformance.command import main

if __name__ == "__main__":
    sys.exit(main())
