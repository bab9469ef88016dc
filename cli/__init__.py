"""The command line: each command parses, calls one library function, prints, and ends with an exit code."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run ``odm``; the console script."""
    try:
        # Inside the try, so that ctrl-C is answered from the first moment.
        from odm.cli._app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
