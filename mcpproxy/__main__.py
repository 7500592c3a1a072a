"""The entry point of `mcpproxy` and `python -m mcpproxy`."""

import os
import sys


def main() -> int:
    """Run the command named by the arguments; returns the exit code."""
    _forget_foreign_paths()
    from mcpproxy.cli import dispatch

    return dispatch(sys.argv[1:])


def _forget_foreign_paths() -> None:
    """Import nothing from PYTHONPATH: it is meant for the server, and may hold a package called `captures` too.

    The directory that mcpproxy itself was imported from stays. The server still gets the variable as it is.
    """
    foreign = os.environ.get("PYTHONPATH")
    if foreign:
        ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        named = {os.path.abspath(path) for path in foreign.split(os.pathsep)} - {ours}
        sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in named]


if __name__ == "__main__":
    sys.exit(main())
