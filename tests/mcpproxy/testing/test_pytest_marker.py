"""Where the cassette of a test is, and what is done with it, by marker, option, setting and environment."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpproxy.testing.pytest_marker import cassette_of, path_below


def item_of(name: str, *, folder: str = "", option: str | None = None, **arguments: Any) -> Any:
    """What `cassette_of` asks of a test of pytest."""
    config = SimpleNamespace(getini=lambda _: folder, getoption=lambda _: option, rootpath=Path("/tests"))
    marker = SimpleNamespace(kwargs=arguments)
    return SimpleNamespace(
        name=name,
        parent=None,
        path=Path("/tests/api/test_notes.py"),
        config=config,
        get_closest_marker=lambda _: marker,
    )


def path_of(name: str, **more: Any) -> str:
    cassette = cassette_of(item_of(name, **more))
    assert cassette is not None
    return str(cassette.path)


def test_cassette_is_next_to_the_module_or_in_the_folder_of_the_setting() -> None:
    assert path_of("test_find") == "/tests/api/cassettes/test_notes/test_find.mcpcap"
    assert path_of("test_find", cassette="one.mcpcap") == "/tests/api/cassettes/one.mcpcap"
    assert path_of("test_find", folder="kept") == "/tests/kept/api/test_notes/test_find.mcpcap"
    assert path_of("test_find", folder="kept", cassette="one.mcpcap") == "/tests/kept/one.mcpcap"


def test_tests_with_different_names_have_different_files() -> None:
    names = [
        "test[a-b]",
        "test[a/b]",
        "test[a\\b]",
        "test[../../x]",
        "test[a\0b]",
        f"test[{'x' * 300}]",
        f"test[{'x' * 301}]",
    ]
    paths = [Path(path_of(name)) for name in names]
    assert paths[0].name == "test-a-b.mcpcap"
    assert len({*paths}) == len(names)
    for path in paths:
        assert path.parent == Path("/tests/api/cassettes/test_notes")
        assert len(path.name) < 130


def test_mode_is_that_of_the_option_then_the_marker_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for ci, marker, option, mode in (
        ("", {}, None, "once"),
        ("false", {}, None, "once"),
        ("true", {}, None, "none"),
        ("true", {"mode": "once"}, None, "once"),
        ("true", {"mode": "once"}, "all", "all"),
        ("", {"mode": "none"}, "new", "new"),
    ):
        monkeypatch.setenv("CI", ci)
        cassette = cassette_of(item_of("test", option=option, **marker))
        assert cassette is not None
        assert cassette.mode == mode, (ci, marker, option)


@pytest.mark.parametrize("name", ["../../../x.mcpcap", "/elsewhere/x.mcpcap", "../..", ".", "", "a\0b", 5, b"x"])
def test_a_cassette_is_a_path_below_the_rootdir(name: Any) -> None:
    with pytest.raises(ValueError, match="cassette"):
        path_below(Path("/tests"), Path("/tests/api/cassettes"), name)


def test_a_cassette_may_be_in_another_folder_of_the_project_or_of_the_setting() -> None:
    folder = Path("/tests/api/cassettes")
    assert path_below(Path("/tests"), folder, "../../shared/x.mcpcap") == Path("/tests/shared/x.mcpcap")
    assert path_below(Path("/tests"), folder, Path("/tests/x.mcpcap")) == Path("/tests/x.mcpcap")
    assert path_below(Path("/tests"), Path("/kept"), "a/x.mcpcap") == Path("/kept/a/x.mcpcap")
