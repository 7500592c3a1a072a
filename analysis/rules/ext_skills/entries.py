"""Entries of skills, in the results of `skills/list` and `skills/get`: URIs, names and descriptions."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from analysis.conversation.call import MessageContext
from analysis.protocol.extensions import SKILLS
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import shortened
from analysis.rules.support.extension_rules import OtherResultType
from analysis.rules.support.skill_uris import authority_of, common_form, is_path_segment, last_segment, name_fault
from analysis.rules.support.skills import ENTRY_METHODS, LIST, RawEntry, raw_entries

MAX_DESCRIPTION_CHARS: Final = 1024
"""The most characters of a skill's description."""
MAX_COMPATIBILITY_CHARS: Final = 500
"""The most characters of what a skill says about the environment that it needs."""


class EntryRule(Rule):
    """The base class of the rules about entries."""

    who = "server"
    extension = SKILLS
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self.check_entries(context, raw_entries(context)))

    def check_entries(self, context: MessageContext, entries: list[RawEntry]) -> Iterator[Finding]:
        """Check the entries of a result."""
        for entry in entries:
            for pointer, text in self.faults(entry):
                yield self.finding(context, text, pointer=pointer)

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        """Yields what is wrong with an entry, each after its place."""
        raise NotImplementedError


class ResultType(OtherResultType):
    """The `resultType` of a result of Skills is not `complete`.

    **Why it matters.** These methods have no other results, so hosts take it for a failure or wait for more.

    **On the wire.** `> {"id":2,"method":"skills/list",…}` `< {"id":2,"result":{"resultType":"skills","skills":[…]}}`

    **Instead.** `"resultType":"complete"`
    """

    id = "ext-skills/result-type"
    extension = SKILLS


class EntryUri(EntryRule):
    """The URI of an entry does not end with `/SKILL.md`, or no directory precedes that.

    **Why it matters.** The URI of its `SKILL.md` identifies a skill, and its name and its other files follow from it.

    **On the wire.** `< …"skills":[{"uri":"skill://refunds",…}]`

    **Instead.** `skill://refunds/SKILL.md`, with `SKILL.md` in capitals, regardless of the scheme.
    """

    id = "ext-skills/entry-uri"

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        if entry.uri is None or ":" not in entry.uri:
            return  # the shape of the entry is wrong
        if entry.root is None:
            yield f"{entry.pointer}/uri", "the uri of an entry does not end with /SKILL.md"
        elif not last_segment(entry.root):
            yield f"{entry.pointer}/uri", "the uri of an entry has no directory before SKILL.md"


class NameMismatch(EntryRule):
    """The name of a skill differs from the name of its directory.

    **Why it matters.** Hosts take the name from the URI alone. One that compares the two refuses the skill.

    **On the wire.** `< …{"uri":"skill://billing/refund/SKILL.md","frontmatter":{"name":"refunds",…},…}`

    **Instead.** Name the directory after the skill: `skill://billing/refunds/SKILL.md`.
    """

    id = "ext-skills/name-mismatch"
    impact = Impact.WRONG

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        name, segment = entry.frontmatter.get("name"), last_segment(entry.root) if entry.root else ""
        if isinstance(name, str) and segment and name != segment:
            text = f"the directory {shortened(segment)!r} is not named after the skill {shortened(name)!r}"
            yield f"{entry.pointer}/frontmatter/name", text


class InvalidName(EntryRule):
    """The name of a skill is not valid.

    **Why it matters.** Hosts use the name as a directory and as a command, and refuse skills with other names.

    **On the wire.** `< …"frontmatter":{"name":"Refund_Requests",…}`

    **Instead.** 1 to 64 lower-case letters, digits and single hyphens, with no hyphen at either end:
    `refund-requests`.
    """

    id = "ext-skills/invalid-name"

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        name = entry.frontmatter.get("name")
        fault = name_fault(name) if isinstance(name, str) else None
        if fault is not None:
            yield f"{entry.pointer}/frontmatter/name", f"the name of a skill {fault}"


class InvalidDescription(EntryRule):
    """The description of a skill, or its `compatibility`, is empty or too long.

    **Why it matters.** The description is all that a model sees before it loads the skill. Hosts cut off a text that is
    too long, or refuse the skill.

    **On the wire.** `< …"frontmatter":{"name":"refunds","description":""}`

    **Instead.** Say in 1 to 1024 characters what the skill does and when to use it; `compatibility` has at most 500.
    """

    id = "ext-skills/invalid-description"
    impact = Impact.WRONG

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        for name, limit in (("description", MAX_DESCRIPTION_CHARS), ("compatibility", MAX_COMPATIBILITY_CHARS)):
            text = entry.frontmatter.get(name)
            if isinstance(text, str) and not text.strip():
                yield f"{entry.pointer}/frontmatter/{name}", f"the {name} of a skill is empty"
            elif isinstance(text, str) and len(text.strip()) > limit:
                fault = f"the {name} of a skill has {len(text.strip())} characters, more than {limit}"
                yield f"{entry.pointer}/frontmatter/{name}", fault


class FirstSegment(EntryRule):
    """The first segment of a `skill:` URI has a user name or a port.

    **Why it matters.** The segment is only a part of the path, but URI parsers split it into user name, host and port.

    **On the wire.** `< …{"uri":"skill://acme:80/refunds/SKILL.md",…}`

    **Instead.** Use letters, digits and hyphens: `skill://acme/refunds/SKILL.md`.
    """

    id = "ext-skills/first-segment"
    level = WARNING
    impact = Impact.HINT

    def faults(self, entry: RawEntry) -> Iterator[tuple[str, str]]:
        uri = entry.uri
        if uri is not None and uri.lower().startswith("skill:") and not is_path_segment(authority_of(uri)):
            yield f"{entry.pointer}/uri", "the first segment of the uri has a user name or a port"


class _RepeatRule(EntryRule):
    """The base class of the rules about what two entries of one list have in common."""

    methods = frozenset({LIST})
    shared_text: ClassVar[str]

    def check_entries(self, context: MessageContext, entries: list[RawEntry]) -> Iterator[Finding]:
        seen: set[Any] = set()
        for entry in entries:
            key, pointer = self.key(entry)
            if isinstance(key, str) and key in seen:
                yield self.finding(context, self.shared_text, pointer=pointer)
            seen.add(key if isinstance(key, str) else None)

    def key(self, entry: RawEntry) -> tuple[object, str]:
        """Returns what two entries should not share, and its place in the message."""
        raise NotImplementedError


class DuplicateSkill(_RepeatRule):
    """A list has two entries for the same skill.

    **Why it matters.** The URI identifies the skill, so hosts keep one of the entries, perhaps the wrong one.

    **On the wire.** `< …"skills":[{"uri":"skill://refunds/SKILL.md",…},{"uri":"skill://refunds/SKILL.md",…}]`

    **Instead.** List each skill once, with all its files.
    """

    id = "ext-skills/duplicate-skill"
    level = WARNING
    impact = Impact.WRONG
    shared_text = "an earlier entry of the list has the same uri"

    def key(self, entry: RawEntry) -> tuple[object, str]:
        return (common_form(entry.uri) if entry.uri is not None else None), f"{entry.pointer}/uri"


class DuplicateName(_RepeatRule):
    """Two skills of a list have the same name.

    **Why it matters.** It is legal, but users and models call skills by name, so hosts have to tell them apart by their
    paths.

    **On the wire.** `< …"skills":[{"uri":"skill://billing/refunds/SKILL.md",…},
    {"uri":"skill://support/refunds/SKILL.md",…}]`

    **Instead.** Use a different name for each skill, such as `billing-refunds`.
    """

    id = "ext-skills/duplicate-name"
    level = NOTE
    shared_text = "an earlier entry of the list has the same name"

    def key(self, entry: RawEntry) -> tuple[object, str]:
        return entry.frontmatter.get("name"), f"{entry.pointer}/frontmatter/name"
