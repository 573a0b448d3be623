"""The command `xlashape`, also as `python -m xlashape`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line."""
    try:
        from xlashape.cli import main as command_line
    except KeyboardInterrupt:  # while it loads; the command line itself ends so too
        sys.exit(130)

    command_line()


if __name__ == "__main__":
    main()
