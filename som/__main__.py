"""`python -m som`, for launchers that start modules."""

import sys

from som.cli import main

if __name__ == "__main__":
    sys.exit(main())
