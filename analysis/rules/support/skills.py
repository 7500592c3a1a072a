"""The skills of a server as far as a session has seen them: the newest entry of each, and the files that it lists.

Servers send entries in the results of `skills/list` and `skills/get`. A skill can change at any time, and a server need
not announce it, so an entry says what the server had when it sent it. Each session has one `SkillBook`, which its rules
share: each rule passes every result to it, and only the first call for a result counts. URIs are in the common form of
`skill_uris`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Message, Request
from analysis.conversation.session import Session
from analysis.rules.support.digests import json_digest
from analysis.rules.support.eras import member
from analysis.rules.support.skill_uris import MAX_URI_CHARS, common_form, parent_directories, skill_root

LIST: Final = "skills/list"
GET: Final = "skills/get"
READ_DIRECTORY: Final = "resources/directory/read"
READ: Final = "resources/read"
ENTRY_METHODS: Final = frozenset({LIST, GET})
"""The methods whose results contain entries."""
UPDATED: Final = "notifications/resources/updated"
CHANGE_NOTIFICATIONS: Final = frozenset({UPDATED, "notifications/resources/list_changed"})
"""The notifications after which an entry may no longer describe its skill."""
HAS_SKILLS: Final = "skills"
"""The entry in `Session.learned` for a server of which an entry was seen."""

MAX_SKILLS: Final = 1_000
"""The most skills of one result or session that are examined or remembered."""
MAX_FILES: Final = 20_000
"""The most files of one result or session that are examined or remembered."""
MAX_LISTED_FILES: Final = 2_000
"""The most files of one entry that are examined; an entry with more is not remembered."""
MAX_FRONTMATTER_BYTES: Final = 65_536
"""The most bytes of frontmatter that are remembered."""

_KEY: Final = "skills"
_is_digest: Final = re.compile(r"sha256:[0-9a-f]{64}").fullmatch


class RawEntry(NamedTuple):
    """An entry as it was sent."""

    body: dict[str, Any]
    pointer: str
    """Its place in the message, as a JSON Pointer."""

    @property
    def uri(self) -> str | None:
        """The URI of the skill, or None if it is not a string."""
        uri = self.body.get("uri")
        return uri if isinstance(uri, str) else None

    @property
    def root(self) -> str | None:
        """The directory of the skill, or None if the URI does not name a `SKILL.md`."""
        return None if self.uri is None else skill_root(self.uri)

    @property
    def frontmatter(self) -> dict[str, Any]:
        """The frontmatter; empty if it is not an object."""
        frontmatter = self.body.get("frontmatter")
        return frontmatter if isinstance(frontmatter, dict) else {}

    def files(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yields each file that is an object with a URI: the URI as sent, the object, and its place."""
        for index, listed in enumerate(_items(self.body.get("resources"), MAX_LISTED_FILES)):
            uri = member(listed, "uri")
            if isinstance(uri, str):
                yield uri, listed, f"{self.pointer}/resources/{index}"


class SkillFile(NamedTuple):
    """A file of a skill, as an entry lists it."""

    digest: str
    """The digest, if it has the right form; otherwise empty."""
    size: int | None
    """The size in bytes, or None if it is invalid."""
    owner: str
    """The URI of the skill whose entry lists it."""
    seq: int
    """The number of the message with the entry."""


class Skill(NamedTuple):
    """The newest entry of a skill."""

    root: str
    frontmatter: dict[str, Any] | None
    """The frontmatter; None if it is empty, not an object or too large."""
    files: dict[str, SkillFile] | None
    """The files by URI; None if the content is dynamic, or the list cannot be read."""
    is_dynamic: bool
    seq: int
    """The number of the message with the entry."""
    fresh_until_ns: int
    """The time until which the server lets clients keep the entry; 0 once it has announced a change."""


class SkillBook:
    """The skills of a server that one session has seen."""

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        """The skills by URI."""
        self._roots: dict[str, str] = {}
        self._files: dict[str, SkillFile] = {}
        self._last: tuple[Message, dict[str, Skill | None]] | None = None

    def record(self, context: MessageContext) -> dict[str, Skill | None]:
        """Record a result with entries; returns each URI in it with the skill's entry before, or None for a new one."""
        if self._last is None or self._last[0] is not context.message:
            self._last = context.message, self._record(context)
        return self._last[1]

    def expire(self, context: MessageContext) -> None:
        """Let the entries expire of which a notification of the server says that they may have changed."""
        if context.method != UPDATED:
            changed_uris = [*self.skills]
        else:
            uri = member(context.body.get("params"), "uri")
            if not isinstance(uri, str):
                return
            form = common_form(uri)
            file = self._files.get(form)
            directories = (form, *parent_directories(form))
            changed_uris = [self._roots[directory] for directory in directories if directory in self._roots]
            changed_uris += [] if file is None else [file.owner]
        for skill_uri in changed_uris:
            if (skill := self.skills.get(skill_uri)) is not None:
                self.skills[skill_uri] = skill._replace(fresh_until_ns=0)

    def is_fresh(self, uri: str, request: Request) -> bool:
        """Whether the server let its clients keep the entry of a skill when a request was sent."""
        skill = self.skills.get(uri)
        return skill is not None and request.t_ns < skill.fresh_until_ns

    def file_for(self, uri: str, request: Request) -> SkillFile | None:
        """Returns the file with a URI if an entry that came before a request lists it, or None."""
        file = self._files.get(uri)
        return file if file is not None and file.seq < request.seq else None

    def skill_for(self, uri: str, request: Request) -> Skill | None:
        """Returns the skill with a URI if its newest entry came before a request, or None."""
        skill = self.skills.get(uri)
        return skill if skill is not None and skill.seq < request.seq else None

    def enclosing(self, form: str, request: Request) -> Skill | None:
        """Returns the innermost skill around a file or directory, if its entry came before a request, or None."""
        for directory in (form, *parent_directories(form)):
            if directory in self._roots:
                return self.skill_for(self._roots[directory], request)
        return None

    def _record(self, context: MessageContext) -> dict[str, Skill | None]:
        previous: dict[str, Skill | None] = {}
        for entry in raw_entries(context):
            root = entry.root
            if entry.uri is None or root is None or len(entry.uri) > MAX_URI_CHARS:
                continue
            uri = common_form(entry.uri)
            if uri in previous:
                continue  # another rule reports the second entry
            earlier_skill = self.skills.get(uri)
            if earlier_skill is None and len(self.skills) >= MAX_SKILLS:
                continue
            previous[uri] = earlier_skill
            self._forget_files(uri, earlier_skill)
            skill = _skill(entry, root, uri, context)
            if skill.files is not None and len(self._files) + len(skill.files) > MAX_FILES:
                skill = skill._replace(files=None)
            self.skills[uri], self._roots[root] = skill, uri
            self._files.update(skill.files or {})
        if previous:
            context.session.learned |= {HAS_SKILLS}
        return previous

    def _forget_files(self, uri: str, skill: Skill | None) -> None:
        for file_uri in (skill.files if skill is not None else None) or ():
            if (file := self._files.get(file_uri)) is not None and file.owner == uri:
                del self._files[file_uri]


def skills_of(session: Session) -> SkillBook:
    """The skills that a session has seen."""
    book: SkillBook | None = session.memory.get(_KEY)
    if book is None:
        book = session.memory[_KEY] = SkillBook()
    return book


def raw_entries(context: MessageContext) -> list[RawEntry]:
    """Returns the entries in a result of `skills/list` or `skills/get` that are objects, within the limits above."""
    result = context.body.get("result")
    if context.method == GET:
        entry = member(result, "skill")
        return [RawEntry(entry, "/result/skill")] if isinstance(entry, dict) else []
    entries, file_count = list[RawEntry](), 0
    for index, entry in enumerate(_items(member(result, "skills"), MAX_SKILLS)):
        if isinstance(entry, dict) and file_count < MAX_FILES:
            entries.append(RawEntry(entry, f"/result/skills/{index}"))
            file_count += len(_items(entry.get("resources"), MAX_LISTED_FILES))
    return entries


def requested_uri(request: Request | None) -> str | None:
    """Returns the `uri` in the params of a request, or None if there is none."""
    uri = member(request.params, "uri") if request is not None else None
    return uri if isinstance(uri, str) else None


def digest_in(listed: dict[str, Any]) -> str:
    """Returns the digest of a listed file, or an empty text if it does not have the right form."""
    digest = listed.get("digest")
    return digest if isinstance(digest, str) and _is_digest(digest) else ""


def size_in(listed: dict[str, Any]) -> int | None:
    """Returns the size of a listed file in bytes, or None if it is not a whole number of 0 or more."""
    size = listed.get("size")
    if isinstance(size, bool) or not isinstance(size, int | float):
        return None
    return int(size) if size >= 0 and size == size // 1 else None


def is_same_json(value: object, other: object) -> bool:
    """Whether two values are the same JSON; also if that cannot be decided."""
    digest, other_digest = json_digest(value), json_digest(other)
    return digest is None or other_digest is None or digest == other_digest


def _skill(entry: RawEntry, root: str, uri: str, context: MessageContext) -> Skill:
    resources, seq = entry.body.get("resources"), context.message.seq
    files = None
    if isinstance(resources, list) and len(resources) <= MAX_LISTED_FILES:
        files = {
            common_form(file_uri): SkillFile(digest_in(listed), size_in(listed), uri, seq)
            for file_uri, listed, _ in entry.files()
            if len(file_uri) <= MAX_URI_CHARS
        }
    ttl_ms = member(context.body.get("result"), "ttlMs")
    is_positive = isinstance(ttl_ms, int | float) and ttl_ms > 0
    fresh_until_ns = context.message.t_ns + (int(min(ttl_ms, 1 << 40) * 1_000_000) if is_positive else 0)
    return Skill(root, _bounded(entry.frontmatter), files, resources == "dynamic", seq, fresh_until_ns)


def _bounded(frontmatter: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return frontmatter if frontmatter and len(orjson.dumps(frontmatter)) <= MAX_FRONTMATTER_BYTES else None
    except TypeError:
        return None  # integers beyond 64 bits, or lone surrogates


def _items(value: object, limit: int) -> list[Any]:
    return value[:limit] if isinstance(value, list) else []
