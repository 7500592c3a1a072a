"""`mcpproxy` and `python -m mcpproxy`."""

import sys


def main() -> int:
    """Run the command named by the arguments; returns the exit code."""
    from mcpproxy.cli import dispatch

    return dispatch(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
