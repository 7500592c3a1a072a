"""Compares what the sides say of themselves: capabilities, revision, name and version, instructions."""

import json
from collections.abc import Iterator
from typing import Any

from analysis.comparison.aspect import Aspect
from analysis.comparison.capability_changes import capability_changes
from analysis.comparison.change import ABSENT, AspectResult, Change, Gap, SizeRow
from analysis.comparison.definitions.definition_changes import differs_only_in_hidden_text, hidden_text_changes
from analysis.comparison.kinds import session as kinds
from analysis.comparison.members import changed_members, how_changed, step_to
from analysis.comparison.options import CompareOptions, ObserveOptions
from analysis.comparison.requests import bounded
from analysis.comparison.servers import pair_servers
from analysis.comparison.session_facts import Declaration, ServerRecord, SessionObserver, SessionRecord
from analysis.store.definitions import tokens_estimate


class SessionAspect(Aspect):
    """The aspect `session`."""

    name = "session"
    record = SessionRecord

    def observer(self, options: ObserveOptions) -> SessionObserver:  # noqa: ARG002 - declarations have no options
        """Returns an observer for one side."""
        return SessionObserver()

    def compare(self, old: SessionRecord, new: SessionRecord, options: CompareOptions) -> AspectResult:  # noqa: ARG002
        """Compare what both sides say of themselves. Servers of one side only are left to the aspect `definitions`."""
        servers = pair_servers(old.servers, new.servers)
        changes: list[Change] = []
        gaps: list[Gap] = []
        old_count, new_count, sizes = 0, 0, SizeRow("instructions", 0, 0, 0, 0, 0, 0)
        for pair in servers.pairs:
            suffix = servers.suffix(pair)
            before, after = old.servers[pair.old], new.servers[pair.new]
            changes += _identity_changes(f"server{suffix}", before, after)
            changes += _server_info_changes(f"server{suffix}", before.declaration, after.declaration)
            changes += _client_changes(f"client{suffix}", before, after)
            label = f"capabilities and instructions{suffix}"
            if before.declaration is None or after.declaration is None:
                gaps.append(_gap(label, before.declaration, after.declaration))
                continue
            changes += _capability_changes(f"server{suffix}", before.declaration, after.declaration)
            changes += _instructions_changes(f"instructions{suffix}", before.declaration, after.declaration)
            old_count += len(before.declaration.capability_members or ())
            new_count += len(after.declaration.capability_members or ())
            sizes = _with_instructions(sizes, before.declaration, after.declaration)
        compared = (("capabilities", old_count, new_count),) if old_count or new_count else ()
        has_instructions = sizes.old_count or sizes.new_count
        return AspectResult(tuple(changes), tuple(gaps), compared, sizes=(sizes,) if has_instructions else ())


def _identity_changes(subject: str, old: ServerRecord, new: ServerRecord) -> Iterator[Change]:
    """Yields the changes of the revision, name and version, as far as both sides are known."""
    old_place = None if old.declaration is None else old.declaration.place
    new_place = None if new.declaration is None else new.declaration.place
    for kind, what, before, after in (
        (kinds.SERVER_NAME, "the name of the server", old.name, new.name),
        (kinds.SERVER_VERSION, "the version of the server", old.version, new.version),
    ):
        if before is not None and after is not None and before != after:
            message = f"{what} is {after!r} now, and was {before!r}"
            yield Change(kind, subject, message, before=before, after=after, old=old_place, new=new_place)
    is_known = old.revision is not None and new.revision is not None
    if is_known and new.revision not in old.revisions and old.revision not in new.revisions:
        message = f"the revision is {new.revision!r} now, and was {old.revision!r}"
        yield Change(*(kinds.REVISION_CHANGED, subject, message, ""), old.revision, new.revision, old_place, new_place)


def _server_info_changes(subject: str, old: Declaration | None, new: Declaration | None) -> Iterator[Change]:
    """Yields a change for each member of `serverInfo` that differs, except name and version."""
    before, after = (None if each is None else each.server_members for each in (old, new))
    if old is None or new is None or before is None or after is None:
        return
    for name, old_value, new_value in changed_members(before, after):
        message = how_changed(f"the member {bounded(name)!r} of `serverInfo`", old_value, new_value)
        pointer = f"/serverInfo{step_to(name)}"
        yield Change(kinds.SERVER_INFO, subject, message, pointer, old_value, new_value, old.place, new.place)


def _client_changes(subject: str, old: ServerRecord, new: ServerRecord) -> Iterator[Change]:
    """Yields a change for each capability of the client that differs."""
    if old.client_capabilities is None or new.client_capabilities is None:
        return
    before: dict[str, Any] = json.loads(old.client_capabilities)
    after: dict[str, Any] = json.loads(new.client_capabilities)
    for name, old_value, new_value in changed_members(before, after):
        message = how_changed(f"the capability {bounded(name)!r} of the client", old_value, new_value)
        pointer = f"/capabilities{step_to(name)}"
        yield Change(
            *(kinds.CLIENT_CAPABILITY, subject, message, pointer, old_value, new_value),
            *(old.client_place, new.client_place),
        )


def _capability_changes(subject: str, old: Declaration, new: Declaration) -> Iterator[Change]:
    before, after = old.capability_members, new.capability_members
    if before is None or after is None:
        return
    for change in capability_changes(subject, before, after):
        yield change._replace(old=old.place, new=new.place)


def _instructions_changes(subject: str, old: Declaration, new: Declaration) -> Iterator[Change]:
    before: Any = ABSENT if old.instructions is None else old.instructions_text
    after: Any = ABSENT if new.instructions is None else new.instructions_text
    if before == after:
        return
    changes = hidden_text_changes(subject, before, after, "/instructions")
    if not differs_only_in_hidden_text(before, after):
        message = how_changed("the text of the instructions", before, after, "was reworded")
        changes.insert(0, Change(kinds.INSTRUCTIONS, subject, message, "/instructions", before, after))
    for change in changes:
        yield change._replace(old=old.place, new=new.place)


def _with_instructions(sizes: SizeRow, old: Declaration, new: Declaration) -> SizeRow:
    """Returns the sizes of all instructions so far."""
    old_bytes, new_bytes = _size(old), _size(new)
    return SizeRow(
        sizes.list,
        sizes.old_count + (old_bytes > 0),
        sizes.new_count + (new_bytes > 0),
        sizes.old_bytes + old_bytes,
        sizes.new_bytes + new_bytes,
        sizes.old_tokens + tokens_estimate(old_bytes),
        sizes.new_tokens + tokens_estimate(new_bytes),
    )


def _size(declaration: Declaration) -> int:
    text = declaration.instructions_text or ""
    return len(text.encode("utf-8", "replace"))


def _gap(label: str, old: Declaration | None, new: Declaration | None) -> Gap:
    """Returns why the declarations of a server cannot be compared."""
    if old is None and new is None:
        return Gap(label, "neither side shows what the server declares", is_failure=False)
    known, unknown = ("new", "old") if old is None else ("old", "new")
    reason = f"the {known} side shows what the server declares and the {unknown} side does not"
    return Gap(label, reason, is_failure=True)
