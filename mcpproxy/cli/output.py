"""What the commands that print have in common: `--format`, `--json`, and one JSON object a line."""

import argparse
from collections.abc import Mapping
from typing import Any

import orjson


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add `--format text|json` and its short form `--json`."""
    parser.add_argument(
        "--format",
        choices=("text", "json"),
        default="text",
        help="text for people (default), or one JSON object a line",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")


def json_line(row: Mapping[str, Any]) -> str:
    """One object as a line of JSON. Text that is no Unicode (a file's name, say) is written with escapes."""
    try:
        return orjson.dumps(row, default=str).decode() + "\n"
    except (TypeError, orjson.JSONEncodeError):
        import json

        return json.dumps(row, default=str) + "\n"
