"""The options of `mock --listen`; without them, nothing of HTTP is loaded."""

import argparse


def add_listen_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a mock over HTTP."""
    parser.add_argument(
        "--listen",
        metavar="PORT|HOST:PORT",
        help="serve over HTTP instead of stdio; a port alone means that port on 127.0.0.1, and 127.0.0.1:0 a free one; "
        "the URL is printed on stdout",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name under which clients, and pages in browsers, can reach the mock; can be repeated",
    )
    parser.add_argument(
        "--dangerously-listen-beyond-loopback",
        action="store_true",
        help="allow --listen on an address that other machines can reach: they can read what was recorded",
    )
