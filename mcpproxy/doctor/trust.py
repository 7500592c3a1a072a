"""Finds out from a client's files whether the user trusts a server of a project.

Anyone who can write to a repository chooses what its servers run, so an approval counts only in the user's own files,
outside the project.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy.clients.documents.document import read_data
from mcpproxy.clients.documents.edits import value_or
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server
from mcpproxy.doctor.variables import expand_entry

_IGNORED_MEMBERS: Final = frozenset({"scope", "extensionName", "description"})
"""The members of an entry that do not affect its approval in Qwen Code."""


class ServerTrust(NamedTuple):
    """The trust in one server, according to the client's files."""

    is_approved: bool
    """Whether the server is the user's own, or the user has approved it."""
    distrust_reason: str = ""
    """Why the client does not start the server yet; empty if it does, or if its files do not say."""


def trust_in(server: Server, machine: Machine) -> ServerTrust:
    """Return whether a client may start a server and, if it may not, the reason."""
    if server.scope != "project":
        return ServerTrust(is_approved=True)
    check = {"claude-code": _claude_trust, "codex": _codex_trust, "gemini": _gemini_trust, "qwen": _qwen_trust}.get(
        server.client.id
    )
    return check(server, machine) if check is not None else ServerTrust(is_approved=False)


def _claude_trust(server: Server, machine: Machine) -> ServerTrust:
    """Return the trust in a server of Claude Code.

    Approvals are in the user's file, for each project, or in settings; settings of the project count only if the user
    trusts its folder.
    """
    project_data = value_or(_own_data(server, machine, "~/.claude.json", "json"), ("projects", str(machine.project)))
    names = ("settings.json", "settings.local.json")
    own_settings = [project_data, _own_data(server, machine, "~/.claude/settings.json")]
    project_settings = [read_data(machine.project / ".claude" / name, "jsonc") for name in names]
    if any(
        server.name in _names_in(settings, "disabledMcpjsonServers") for settings in (*own_settings, *project_settings)
    ):
        return ServerTrust(
            is_approved=False,
            distrust_reason=f"{server.name} was rejected; run `claude mcp reset-project-choices` to be asked again",
        )
    if any(_enables(settings, server.name) for settings in own_settings):
        return ServerTrust(is_approved=True)
    if any(_enables(settings, server.name) for settings in project_settings):
        return ServerTrust(is_approved=value_or(project_data, ("hasTrustDialogAccepted",)) is True)
    return ServerTrust(
        is_approved=False, distrust_reason=f"{server.name} of {server.file.name} has not been approved yet"
    )


def _enables(settings: Any, name: str) -> bool:
    is_all = value_or(settings, ("enableAllProjectMcpServers",)) is True
    return is_all or name in _names_in(settings, "enabledMcpjsonServers")


def _names_in(settings: Any, member: str) -> list[Any]:
    value = value_or(settings, (member,))
    return value if isinstance(value, list) else []


def _codex_trust(server: Server, machine: Machine) -> ServerTrust:
    config = _own_data(server, machine, "~/.codex/config.toml", "toml")
    for folder in (machine.directory, *machine.directory.parents):
        level = value_or(config, ("projects", str(folder), "trust_level"))
        if level == "trusted":
            return ServerTrust(is_approved=True)
        if level is not None or folder == machine.project:
            break
    return ServerTrust(
        is_approved=False, distrust_reason=f"{machine.display_path(machine.project)} is not a trusted project"
    )


def _gemini_trust(server: Server, machine: Machine) -> ServerTrust:
    trusted_folders = _own_data(server, machine, "~/.gemini/trustedFolders.json")
    for folder in (machine.directory, *machine.directory.parents):
        level = value_or(trusted_folders, (str(folder),))
        if level in ("TRUST_FOLDER", "TRUST_PARENT"):
            return ServerTrust(is_approved=True)
        if level == "DO_NOT_TRUST":
            break
    settings = _own_data(server, machine, "~/.gemini/settings.json")
    is_required = value_or(settings, ("security", "folderTrust", "enabled")) is True
    return ServerTrust(
        is_approved=False,
        distrust_reason=f"{machine.display_path(machine.project)} is not a trusted folder" if is_required else "",
    )


def _qwen_trust(server: Server, machine: Machine) -> ServerTrust:
    """Return the trust in a server of Qwen Code.

    An approval is bound to a hash of the entry (seen with 0.24.4). In Qwen Code's own file, variables are replaced
    before the entry is hashed.
    """
    folder = server.file.parent
    is_own = folder.name == ".qwen"
    place = (str(folder.parent if is_own else folder), server.name)
    record = value_or(_own_data(server, machine, "~/.qwen/mcpApprovals.json"), place)
    approval_hint = f"run `qwen mcp approve {server.name}` to approve it"
    if value_or(record, ("status",)) == "rejected":
        return ServerTrust(is_approved=False, distrust_reason=f"{server.name} was rejected; {approval_hint}")
    if value_or(record, ("status",)) != "approved":
        return ServerTrust(
            is_approved=False, distrust_reason=f"{server.name} has not been approved yet; {approval_hint}"
        )
    entry = expand_entry(server.entry, server.client, machine.environment) if is_own else server.entry
    if value_or(record, ("hash",)) == _digest(entry):
        return ServerTrust(is_approved=True)
    return ServerTrust(
        is_approved=False, distrust_reason=f"{server.name} has changed since it was approved; {approval_hint}"
    )


def _digest(entry: dict[str, Any]) -> str:
    members = {name: value for name, value in entry.items() if name not in _IGNORED_MEMBERS}
    text = json.dumps(members, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _own_data(server: Server, machine: Machine, place: str, form: Any = "jsonc") -> Any:
    """Return the data of one of the user's own files, or None if there is none."""
    paths: list[Path] = machine.paths_of(place, server.client.overrides)
    return read_data(paths[0], form) if paths else None
