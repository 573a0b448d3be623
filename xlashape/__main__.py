"""The command `xlashape`, also as `python -m xlashape`."""

from __future__ import annotations

import sys

from xlashape.probe import exit_code


def main() -> None:
    """Runs the command line. `xlashape health` is answered without loading the command line where that is possible."""
    code = exit_code(sys.argv[2:]) if sys.argv[1:2] == ["health"] else None
    if code is not None:
        sys.exit(code)
    try:
        from xlashape.cli import main as command_line
    except KeyboardInterrupt:  # while it loads; the command line itself ends so too
        sys.exit(130)

    command_line()


if __name__ == "__main__":
    main()
