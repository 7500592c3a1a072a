"""The catalogue of clients: complete rows, the paths of each system, and the page generated from it."""

import json
from pathlib import Path

import pytest

from mcpproxy.clients.catalogue import CLIENTS
from mcpproxy.clients.client import Client
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.page import page_text
from mcpproxy.clients.servers import read_inventory
from tests.mcpproxy.clients import homes

ROOT = Path(__file__).parents[3]


def test_the_page_is_made_from_the_catalogue() -> None:
    assert (ROOT / "docs/clients.md").read_text("utf-8") == page_text(), "make clients-docs"


def test_names_are_words_and_unique() -> None:
    names = [client.id for client in CLIENTS]
    assert len({*names}) == len(names)
    assert all(name.replace("-", "").isalnum() and name == name.lower() for name in names)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
def test_a_row_has_a_source_and_places_on_every_system(client: Client, tmp_path: Path) -> None:
    assert client.source
    assert not client.step_after_edit.endswith(".")
    for system in ("linux", "macos", "windows"):
        machine = homes.machine(tmp_path, system)
        for config in client.files:
            assert config.places[system], system
            for place in config.places[system]:
                assert all(path.is_absolute() for path in machine.paths_of(place, client.overrides))
    assert not read_inventory(client, homes.machine(tmp_path)).is_installed


def test_variables_move_files(tmp_path: Path) -> None:
    codex = next(client for client in CLIENTS if client.id == "codex")
    machine = homes.machine(tmp_path, CODEX_HOME=str(tmp_path / "other"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/config.toml").write_text('[mcp_servers.a]\ncommand = "x"\n')
    assert [server.name for server in read_inventory(codex, machine).servers] == ["a"]


def test_the_project_is_the_root_of_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repository/a/b"
    inner.mkdir(parents=True)
    assert Machine("linux", tmp_path, {}, inner).project == inner
    (tmp_path / "repository/.git").mkdir()
    assert Machine("linux", tmp_path, {}, inner).project == tmp_path / "repository"


def test_the_windows_side_of_wsl_is_found(tmp_path: Path) -> None:
    here, there = tmp_path / "home", tmp_path / "mnt/c/Users/you"
    file = there / "AppData/Roaming/Claude/claude_desktop_config.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"mcpServers": {"a": {"command": "npx"}}}')
    machine = Machine("linux", here, {}, here, (there,))
    desktop = next(client for client in CLIENTS if client.id == "claude-desktop")
    assert not read_inventory(desktop, machine).is_installed
    (windows,) = machine.windows_machines()
    assert read_inventory(desktop, windows).files == [file]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (["classic"], "classic"),
        ([], "classic"),
        (["Claude_abc"], "Claude_abc"),
        (["Claude_abc/file"], "Claude_abc"),
        (["classic", "Claude_abc/file"], "Claude_abc"),
        (["classic", "Claude_abc"], "classic"),
        (["Claude_abc/file", "Claude_def"], "Claude_abc"),
        (["Claude_abc", "Claude_def"], None),
        (["Claude_abc/file", "Claude_def/file"], None),
    ],
    ids=str,
)
def test_claude_desktop_of_the_store_has_its_own_file(tmp_path: Path, there: list[str], wanted: str | None) -> None:
    inside = "LocalCache/Roaming/Claude/claude_desktop_config.json"
    packages = tmp_path / "AppData/Local/Packages"
    files = {"classic": tmp_path / "AppData/Roaming/Claude/claude_desktop_config.json"}
    files |= {name: packages / name / inside for name in ("Claude_abc", "Claude_def")}
    for name in there:
        folder, _, has_file = name.partition("/")
        if folder != "classic":
            (packages / folder).mkdir(parents=True)
        if has_file or folder == "classic":
            files[folder].parent.mkdir(parents=True)
            files[folder].write_text(json.dumps({"mcpServers": {folder: {"command": "npx"}}}))
    desktop = next(client for client in CLIENTS if client.id == "claude-desktop")
    found = read_inventory(desktop, homes.machine(tmp_path, "windows"))
    if wanted is None:
        assert "it is not clear which" in found.broken_files[0][1]
    else:
        assert found.files == ([files[wanted]] if files[wanted].exists() else [])
        assert [server.name for server in found.servers] == ([wanted] if files[wanted].exists() else [])


def test_the_readme_counts_the_clients() -> None:
    assert f"[{len(CLIENTS)} clients](docs/clients.md)" in (ROOT / "README.md").read_text("utf-8")
    assert f"the {len(CLIENTS)} clients" in (ROOT / "docs/commands/install.md").read_text("utf-8")
