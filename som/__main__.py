"""The program `som`, also as `python -m som`, for launchers that start modules."""

import sys


def main() -> int:
    """Run the command line and return the exit code; Ctrl-C is one line also while it is being loaded."""
    try:
        from som.cli import main as run
    except KeyboardInterrupt:
        print("som: interrupted", file=sys.stderr)
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
