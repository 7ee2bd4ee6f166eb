"""The command `tailback`, as the package brings it."""

import sys

from . import _native


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    import signal

    # A terminal's Ctrl-C goes to the command itself, which keeps its rows.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return _native.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
