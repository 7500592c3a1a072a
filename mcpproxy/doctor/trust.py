"""Whether the user has told a client to trust a server of a project, as far as the client's files say so.

Anyone who can write to a repository chooses what its servers run. So approval counts only if it is outside the project:
in the user's own files.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcpproxy.clients.documents.document import data_of
from mcpproxy.clients.documents.edits import value_or
from mcpproxy.clients.machine import Machine
from mcpproxy.clients.servers import Server
from mcpproxy.doctor.variables import expanded_within

_LABELS: Final = frozenset({"scope", "extensionName", "description"})
"""Members of an entry that Qwen Code's approval does not depend on."""


class Trust(NamedTuple):
    """What a client's files say about one server."""

    is_approved: bool
    """Whether it is the user's own, or the user has approved it."""
    distrust: str = ""
    """Why the client does not start it yet; empty if it does, or if its files do not say."""


def trust_in(server: Server, machine: Machine) -> Trust:
    """Whether a client may start a server."""
    if server.scope != "project":
        return Trust(is_approved=True)
    check = {"claude-code": _claude, "codex": _codex, "gemini": _gemini, "qwen": _qwen}.get(server.client.id)
    return check(server, machine) if check is not None else Trust(is_approved=False)


def _claude(server: Server, machine: Machine) -> Trust:
    """What Claude Code's files say about a server.

    Approvals are in the user's file for each project, or in settings; those of the project need a trusted folder.
    """
    own = value_or(_own_data(server, machine, "~/.claude.json", "json"), ("projects", str(machine.project)))
    names = ("settings.json", "settings.local.json")
    outside = [own, _own_data(server, machine, "~/.claude/settings.json")]
    inside = [data_of(machine.project / ".claude" / name, "jsonc") for name in names]
    if any(server.name in _words(part, "disabledMcpjsonServers") for part in (*outside, *inside)):
        return Trust(
            is_approved=False,
            distrust=f"{server.name} was rejected; run `claude mcp reset-project-choices` to be asked again",
        )
    if any(_enables(part, server.name) for part in outside):
        return Trust(is_approved=True)
    if any(_enables(part, server.name) for part in inside):
        return Trust(is_approved=value_or(own, ("hasTrustDialogAccepted",)) is True)
    return Trust(is_approved=False, distrust=f"{server.name} of {server.file.name} has not been approved yet")


def _enables(settings: Any, name: str) -> bool:
    is_all = value_or(settings, ("enableAllProjectMcpServers",)) is True
    return is_all or name in _words(settings, "enabledMcpjsonServers")


def _words(settings: Any, member: str) -> list[Any]:
    value = value_or(settings, (member,))
    return value if isinstance(value, list) else []


def _codex(server: Server, machine: Machine) -> Trust:
    config = _own_data(server, machine, "~/.codex/config.toml", "toml")
    for folder in (machine.directory, *machine.directory.parents):
        level = value_or(config, ("projects", str(folder), "trust_level"))
        if level == "trusted":
            return Trust(is_approved=True)
        if level is not None or folder == machine.project:
            break
    return Trust(is_approved=False, distrust=f"{machine.shown(machine.project)} is not a trusted project")


def _gemini(server: Server, machine: Machine) -> Trust:
    trusted = _own_data(server, machine, "~/.gemini/trustedFolders.json")
    for folder in (machine.directory, *machine.directory.parents):
        level = value_or(trusted, (str(folder),))
        if level in ("TRUST_FOLDER", "TRUST_PARENT"):
            return Trust(is_approved=True)
        if level == "DO_NOT_TRUST":
            break
    settings = _own_data(server, machine, "~/.gemini/settings.json")
    asks = value_or(settings, ("security", "folderTrust", "enabled")) is True
    return Trust(
        is_approved=False, distrust=f"{machine.shown(machine.project)} is not a trusted folder" if asks else ""
    )


def _qwen(server: Server, machine: Machine) -> Trust:
    """What Qwen Code's files say about a server.

    An approval is bound to a hash of the entry (seen with 0.24.4); variables are replaced first in its own file.
    """
    folder = server.file.parent
    is_own = folder.name == ".qwen"
    place = (str(folder.parent if is_own else folder), server.name)
    record = value_or(_own_data(server, machine, "~/.qwen/mcpApprovals.json"), place)
    again = f"run `qwen mcp approve {server.name}` to approve it"
    if value_or(record, ("status",)) == "rejected":
        return Trust(is_approved=False, distrust=f"{server.name} was rejected; {again}")
    if value_or(record, ("status",)) != "approved":
        return Trust(is_approved=False, distrust=f"{server.name} has not been approved yet; {again}")
    entry = expanded_within(server.entry, server.client, machine.environment) if is_own else server.entry
    if value_or(record, ("hash",)) == _digest(entry):
        return Trust(is_approved=True)
    return Trust(is_approved=False, distrust=f"{server.name} has changed since it was approved; {again}")


def _digest(entry: dict[str, Any]) -> str:
    kept = {name: value for name, value in entry.items() if name not in _LABELS}
    text = json.dumps(kept, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _own_data(server: Server, machine: Machine, place: str, form: Any = "jsonc") -> Any:
    """The data of a file of the user's, or None if there is none."""
    paths: list[Path] = machine.resolve(place, server.client.overrides)
    return data_of(paths[0], form) if paths else None
