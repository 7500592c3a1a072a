"""The entry point of `mcpproxy` and `python -m mcpproxy`."""

import os
import sys


def main() -> int:
    """Run the command named by the arguments; returns the exit code."""
    _ignore_pythonpath()
    from mcpproxy.cli import dispatch

    return dispatch(sys.argv[1:])


def _ignore_pythonpath() -> None:
    """Import nothing from PYTHONPATH: it is meant for the server, and may also contain a package called `captures`.

    The directory that mcpproxy itself was imported from stays. The server still gets the variable as it is.
    """
    python_path = os.environ.get("PYTHONPATH")
    if python_path:
        own_directory = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        foreign_directories = {os.path.abspath(path) for path in python_path.split(os.pathsep)} - {own_directory}
        sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in foreign_directories]


if __name__ == "__main__":
    sys.exit(main())
