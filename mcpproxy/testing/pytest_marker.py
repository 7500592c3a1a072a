"""The marker `mcp` of a test: which cassette, and what to do with it."""

import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast, get_args

import pytest

from captures.paths import SUFFIX
from mcpproxy.testing.cassette import MODES, Cassette, Mode
from mcpproxy.testing.misses import OF_MARKER
from mcpproxy.testing.mocking import Match, as_places
from mcpproxy.wording.nearest import hint

_ARGUMENTS: Final = ("cassette", "mode", "match", "ignore")
_WORDS: Final = {"mode": MODES, "match": get_args(Match)}
_UNSAFE: Final = re.compile(r"[^\w.-]+")
_MAX_NAME_CHARS: Final = 100
_NOT_CI: Final = ("", "0", "false")


def check_markers(item: pytest.Item, fixtures: tuple[str, ...]) -> None:
    """Fail a test whose marker has unknown arguments, or that has none of the fixtures that use it."""
    for marker in item.iter_markers("mcp"):
        if marker.args:
            pytest.fail(
                f'@pytest.mark.mcp takes keyword arguments: cassette="NAME{SUFFIX}", mode="once"', pytrace=False
            )
        for name, value in marker.kwargs.items():
            if name not in _ARGUMENTS:
                pytest.fail(f"@pytest.mark.mcp has no argument {name}{hint(name, _ARGUMENTS)}", pytrace=False)
            words = _WORDS.get(name, ())
            if words and value not in words:
                text = f"{value!r:.40} is not a {name}{hint(str(value), words)}; use {', '.join(words)}"
                pytest.fail(f"@pytest.mark.mcp: {text}", pytrace=False)
        try:
            as_places(marker.kwargs.get("ignore", ()))
            if (cassette := marker.kwargs.get("cassette")) is not None:
                path_below(item.config.rootpath, _folder_of(item), cassette)
        except ValueError as error:
            pytest.fail(f"@pytest.mark.mcp: {error}", pytrace=False)
    if not {*fixtures} & {*getattr(item, "fixturenames", ())}:
        pytest.fail(f"@pytest.mark.mcp does nothing without one of the fixtures {', '.join(fixtures)}", pytrace=False)


def cassette_of(item: pytest.Item) -> Cassette | None:
    """Returns the cassette of a test; None if the test has no marker."""
    marker = item.get_closest_marker("mcp")
    if marker is None:
        return None
    arguments = marker.kwargs
    return Cassette(
        _path_of(item, arguments.get("cassette")),
        _mode_of(item, arguments.get("mode")),
        arguments.get("match", "arguments"),
        as_places(arguments.get("ignore", ())),
        OF_MARKER,
    )


def path_below(root: Path, folder: Path, name: object) -> Path:
    """Returns the path of a cassette.

    Args:
        root: the folder of all tests, below which cassettes must be.
        folder: where names begin, which may be elsewhere.
        name: the name, as the author of a test wrote it.

    Raises:
        ValueError: it is no path, or leads out of both folders.
    """
    if not isinstance(name, str | Path) or not str(name) or "\0" in str(name):
        raise ValueError(f'{name!r:.80} is not the path of a cassette, such as cassette="NAME{SUFFIX}"')
    path = Path(os.path.normpath(folder / name))
    if path in (root, folder) or not (path.is_relative_to(root) or path.is_relative_to(folder)):
        raise ValueError(f"the cassette {str(name)!r:.80} is not below the rootdir of pytest, {root}")
    return path


def _folder_of(item: pytest.Item) -> Path:
    folder = item.config.getini("mcp_cassettes")
    return Path(item.config.rootpath, folder) if folder else item.path.parent / "cassettes"


def _path_of(item: pytest.Item, name: str | None) -> Path:
    folder = item.config.getini("mcp_cassettes")
    cassettes = _folder_of(item)
    if name is not None:
        return path_below(item.config.rootpath, cassettes, name)
    # In a folder for all tests, modules in different folders may have the same name.
    module = Path(os.path.relpath(item.path, item.config.rootpath)) if folder else Path(item.path.name)
    return cassettes / module.with_suffix("") / f"{_file_name(item)}{SUFFIX}"


def _file_name(item: pytest.Item) -> str:
    """Returns the name of a test as that of a file: with its class, and with the arguments of a parametrised test."""
    class_name = f"{item.parent.name}." if isinstance(item.parent, pytest.Class) else ""
    name = f"{class_name}{item.name}".replace("[", "-").removesuffix("]")
    plain_name = _UNSAFE.sub("-", name)[:_MAX_NAME_CHARS]
    if plain_name == name:
        return name
    # Two tests must not share a cassette because their names differ only in what a file cannot be called.
    return f"{plain_name}-{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}"


def _mode_of(item: pytest.Item, mode: str | None) -> Mode:
    option = item.config.getoption("mcp_mode")
    is_ci = os.environ.get("CI", "").lower() not in _NOT_CI
    return cast("Mode", option or mode or ("none" if is_ci else "once"))
