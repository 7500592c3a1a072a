"""Serve a capture as a server, with the recorded answers."""

import argparse

from mcpproxy.cli.arguments import Parser


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of `mock`."""
    return Parser("mock", __doc__)


def run(arguments: list[str]) -> int:
    """Not written yet."""
    raise NotImplementedError
