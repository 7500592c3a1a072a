"""Send a capture's requests to a server again, and compare."""

import argparse

from mcpproxy.cli.arguments import Parser


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `replay`."""
    return Parser("replay", __doc__)


def run(arguments: list[str]) -> int:
    """Not written yet."""
    raise NotImplementedError
