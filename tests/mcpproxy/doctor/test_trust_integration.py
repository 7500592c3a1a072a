"""Servers of a project are started only if the user has approved or named them."""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcpproxy.cli.typed import mcpproxy
from tests.mcpproxy.doctor.cases import configure, doctor, entry, good, verdicts


def test_project_servers_that_were_not_approved(home: Path) -> None:
    project = str((home / "project").resolve())
    configure(home, {"shared": entry(good())}, "project/.mcp.json")
    (home / ".claude.json").write_text(json.dumps({"projects": {project: {}}}))
    assert "shared of .mcp.json" in verdicts(doctor(home, "claude-code"))["config/not-trusted"]
    (home / ".claude.json").write_text(json.dumps({"projects": {project: {"enabledMcpjsonServers": ["shared"]}}}))
    assert verdicts(doctor(home, "claude-code", code=0)) == {}
    (home / "project/.codex").mkdir()
    (home / "project/.codex/config.toml").write_text(f'[mcp_servers.a]\ncommand = "{sys.executable}"\n')
    assert "not a trusted project" in verdicts(doctor(home, "codex"))["config/not-trusted"]


def marking(home: Path) -> tuple[dict[str, Any], Path]:
    """Returns a server that works, and that writes a file when it is started."""
    mark = home / "started"
    return entry(good(f"open({str(mark)!r}, 'w').close()")), mark


PROJECT_FILES = {
    "cursor": ("project/.cursor/mcp.json", "mcpServers"),
    "vscode": ("project/.vscode/mcp.json", "servers"),
    "copilot": ("project/.mcp.json", "mcpServers"),
    "gemini": ("project/.gemini/settings.json", "mcpServers"),
}


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_a_server_of_a_cloned_repository_is_started_only_by_its_name(home: Path, client: str) -> None:
    server, mark = marking(home)
    configure(home, {"odd; name": server}, *PROJECT_FILES[client])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        configure(home, {"odd; name": server, "web": {"url": url}}, *PROJECT_FILES[client])
        # If no client is named, the file that Copilot shares with Claude Code counts as Claude Code's.
        for words in ((client,), ()) if client != "copilot" else ((client,),):
            rows = doctor(home, *words, code=0)
            found = {row["server"]: row for row in rows if row["client"] == client}
            assert [*found] == ["odd; name", "web"]
            for name, row in found.items():
                assert row["works"] is None
                text = verdicts([row])["config/needs-consent"]
                assert (
                    f"→ if you trust it, run mcpproxy doctor {client} {name if name == 'web' else repr(name)}" in text
                )
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert not mark.exists()
    done = mcpproxy("doctor", client, cwd=home / "project", HOME=str(home))
    assert "· " + client in done.stdout.decode()
    assert "\n\n2 servers of the project not started" in done.stdout.decode()
    (row,) = doctor(home, client, "odd; name", code=0)
    assert (row["works"], verdicts([row]), mark.exists()) == (True, {}, True)


def test_a_server_that_was_approved_in_the_client_is_started(home: Path) -> None:
    project = str((home / "project").resolve())
    server, mark = marking(home)
    own, shared, local = (
        home / ".claude.json",
        home / ".claude/settings.json",
        home / "project/.claude/settings.local.json",
    )
    for path in (shared, local):
        path.parent.mkdir()
    configure(home, {"a": server}, "project/.mcp.json")

    def is_started(verdict: str = "") -> bool:
        mark.unlink(missing_ok=True)
        rows = doctor(home, "claude-code", code=verdict == "config/not-trusted")
        assert [*verdicts(rows)] == ([verdict] if verdict else [])
        return mark.exists()

    enabled = {"enabledMcpjsonServers": ["a"]}
    assert not is_started("config/not-trusted")
    own.write_text(json.dumps({"projects": {project: enabled}}))
    assert is_started()
    own.unlink()
    shared.write_text(json.dumps(enabled))
    assert is_started()
    shared.unlink()
    local.write_text(json.dumps({"enableAllProjectMcpServers": True}))
    assert not is_started("config/needs-consent"), "what the repository says of itself is no approval"
    own.write_text(json.dumps({"projects": {project: {"hasTrustDialogAccepted": True}}}))
    assert is_started()
    local.write_text(json.dumps({"disabledMcpjsonServers": ["a"]}))
    assert not is_started("config/not-trusted")
    (row,) = doctor(home, "claude-code", "a")
    assert ([*verdicts([row])], row["tools"], mark.exists()) == (["config/not-trusted"], 1, True)
    works = "→ the server works, but Claude Code does not start it until you approve it there"
    assert works in verdicts([row])["config/not-trusted"]
    configure(home, {"a": {"command": "no-such-program-of-ours"}}, "project/.mcp.json")
    found = verdicts(doctor(home, "claude-code", "a"))
    assert [*found] == ["start/not-found", "config/not-trusted"]
    assert "→ fix the server, then approve it in Claude Code" in found["config/not-trusted"]


def test_an_entry_that_another_overrides_is_started_only_by_its_name(home: Path) -> None:
    """Claude Code uses the user's entry until the project's entry is approved."""
    server, mark = marking(home)
    project = str((home / "project").resolve())
    configure(home, {"a": entry(good())}, "project/.mcp.json")

    def rows(code: int, *words: str, **data: Any) -> dict[str, dict[str, Any]]:
        mark.unlink(missing_ok=True)
        (home / ".claude.json").write_text(json.dumps({"mcpServers": {"a": server}, **data}))
        return {row["scope"]: row for row in doctor(home, "claude-code", *words, code=code)}

    found = rows(1)
    assert (found["user"]["works"], mark.exists()) == (True, True)
    assert [*verdicts([found["project"]])] == ["config/not-trusted"]
    approval = {"projects": {project: {"enabledMcpjsonServers": ["a"]}}}
    found = rows(0, **approval)
    assert (found["user"]["works"], found["project"]["works"], mark.exists()) == (None, True, False)
    assert found["user"]["file"] == str(home / ".claude.json")
    text = verdicts([found["user"]])["config/overridden"]
    assert "Claude Code uses the project entry in ~/project/.mcp.json instead →" in text
    assert "run mcpproxy doctor claude-code a" in text
    shown = mcpproxy("doctor", "claude-code", cwd=home / "project", HOME=str(home)).stdout.decode()
    assert "· claude-code  a  (user, ~/.claude.json)\n" in shown
    assert "✓ claude-code  a  1 tool  (project, ~/project/.mcp.json)\n" in shown
    found = rows(0, "a", **approval)
    assert (found["user"]["works"], mark.exists()) == (True, True)


def test_folders_that_codex_and_gemini_trust(home: Path) -> None:
    project = (home / "project").resolve()
    server, mark = marking(home)
    words = json.dumps(server["args"])
    (project / ".codex").mkdir()
    (project / ".codex/config.toml").write_text(f'[mcp_servers.a]\ncommand = "{sys.executable}"\nargs = {words}\n')
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(f'[projects."{project}"]\ntrust_level = "trusted"\n')
    assert doctor(home, "codex", code=0)[0]["works"]
    assert mark.exists()
    configure(home, {"a": server}, "project/.gemini/settings.json")
    (home / ".gemini").mkdir()
    for levels, is_started in (
        ({home: "TRUST_FOLDER"}, True),
        ({home: "TRUST_FOLDER", project: "DO_NOT_TRUST"}, False),
    ):
        mark.unlink()
        (home / ".gemini/trustedFolders.json").write_text(json.dumps({str(k): v for k, v in levels.items()}))
        doctor(home, "gemini", code=0)
        assert mark.exists() is is_started


@pytest.mark.parametrize("file", ["project/.qwen/settings.json", "project/.mcp.json"])
def test_an_approval_of_qwen_code_is_bound_to_the_entry(home: Path, file: str) -> None:
    """The hashes are those of Qwen Code 0.24.4: it replaces variables first, but not in `.mcp.json`."""
    entry = {"command": "/bin/false", "args": ["é"], "env": {"B": "${OURS}", "A": "1"}, "description": "x"}
    hashes = {
        "project/.qwen/settings.json": "c61791318d7acdc2cd23a6d4012b130e5d99ca094bfb09257720300933e9e1ea",
        "project/.mcp.json": "a9ad37305cac21ce64430dbd487257a91dbc221d4c119f0312da8d8a23a3414a",
    }
    configure(home, {"a": entry}, file)
    approvals = home / ".qwen/mcpApprovals.json"
    approvals.parent.mkdir(exist_ok=True)

    def reason(status: str = "", **change: str) -> str:
        record = {"hash": hashes[file], "status": status}
        approvals.write_text(json.dumps({str((home / "project").resolve()): {"a": record} if status else {}}))
        configure(home, {"a": {**entry, **change}}, file)
        return verdicts(doctor(home, "qwen", OURS="ours")).get("config/not-trusted", "")

    assert "has not been approved yet; run `qwen mcp approve a` to approve it" in reason()
    assert "was rejected" in reason("rejected")
    assert reason("approved") == ""
    assert reason("approved", description="y") == ""
    assert "has changed since it was approved" in reason("approved", command="/bin/true")


def test_who_names_a_server_of_his_own_does_not_name_one_of_a_repository(home: Path) -> None:
    server, mark = marking(home)
    configure(home, {"github": entry(good())}, ".cursor/mcp.json")
    configure(home, {"github": server}, "project/.cursor/mcp.json")
    found = {row["scope"]: row for row in doctor(home, "cursor", "github", code=0)}
    assert found["user"]["works"] is True
    assert found["project"]["works"] is None
    assert not mark.exists()


@pytest.mark.parametrize("client", ["gemini", "codex"])
def test_a_folder_that_is_distrusted_in_a_trusted_one(home: Path, client: str) -> None:
    server, mark = marking(home)
    project = (home / "project").resolve()
    below = project / "vendor"
    below.mkdir()
    if client == "gemini":
        (home / ".gemini").mkdir()
        trust = {str(project): "TRUST_FOLDER", str(below): "DO_NOT_TRUST"}
        (home / ".gemini/trustedFolders.json").write_text(json.dumps(trust))
        configure(home, {"evil": server}, "project/vendor/.gemini/settings.json")
    else:
        (home / ".codex").mkdir()
        levels = ((project, "trusted"), (below, "untrusted"))
        (home / ".codex/config.toml").write_text(
            "".join(f'[projects."{folder}"]\ntrust_level = "{level}"\n' for folder, level in levels)
        )
        (below / ".codex").mkdir()
        words = json.dumps(server["args"])
        (below / ".codex/config.toml").write_text(f'[mcp_servers.evil]\ncommand = "{sys.executable}"\nargs = {words}\n')
    mcpproxy("doctor", client, cwd=below, HOME=str(home))
    assert not mark.exists()
