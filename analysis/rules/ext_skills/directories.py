"""Directories of skills, as `resources/directory/read` returns them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.protocol.extensions import SKILLS
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.skill_uris import common_form
from analysis.rules.support.skills import ENTRY_METHODS, READ_DIRECTORY, Skill, requested_uri, skills_of
from analysis.rules.support.walks import cursor_of

MAX_CHECKED_CHILDREN: Final = 10_000
"""The most children of one directory that are checked."""

_DIRECTORY: Final = "inode/directory"


class NotAChild(Rule):
    """A directory contains something that is not directly in it.

    **Why it matters.** Hosts resolve names relative to the directory, so they read the wrong file or none. They descend
    by reading each subdirectory.

    **On the wire.** `> {"id":7,"method":"resources/directory/read","params":{"uri":"skill://refunds/templates",…}}`
    `< …"resources":[{"uri":"skill://refunds/templates/eu/invoice.md",…}]`

    **Instead.** List the subdirectory: `{"uri":"skill://refunds/templates/eu","mimeType":"inode/directory",…}`
    """

    id = "ext-skills/not-a-child"
    who = "server"
    extension = SKILLS
    impact = Impact.WRONG
    sender = "server"
    era = "modern"
    methods = frozenset({READ_DIRECTORY})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        uri, request = requested_uri(context.request), context.request
        return self.capped(self._check(context, request, common_form(uri))) if uri is not None and request else ()

    def _check(self, context: MessageContext, request: Request, directory: str) -> Iterator[Finding]:
        is_skill_scheme = directory.startswith("skill:")
        for child, pointer in _children(context):
            rest = common_form(child["uri"]).removeprefix(f"{directory}/")
            is_inside = rest != common_form(child["uri"])
            if is_inside and "/" in rest:
                text = "a child is in a subdirectory, not directly in the directory"
            elif not is_inside and is_skill_scheme:
                text = "a child is not in the directory"
            else:
                continue  # under other schemes, the URIs of children need not begin with that of their directory
            yield self.finding(context, text, pointer=f"{pointer}/uri", related=(request.seq,))


class TrailingSlash(Rule):
    """The URI of a directory ends with a slash.

    **Why it matters.** Directories are written without it, so a comparison with the URI of the same directory elsewhere
    fails.

    **On the wire.** `> {"id":7,"method":"resources/directory/read","params":{"uri":"skill://refunds/templates/",…}}`

    **Instead.** `skill://refunds/templates`
    """

    id = "ext-skills/trailing-slash"
    extension = SKILLS
    level = WARNING
    impact = Impact.HINT
    era = "modern"
    methods = frozenset({READ_DIRECTORY})

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        uri = requested_uri(context.request)
        if uri is None or not uri.endswith("/") or uri.endswith("://"):
            return ()
        return [self.finding(context, "the uri of a directory ends with a slash", pointer="/params/uri")]

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        text = "the uri of a child ends with a slash"
        return self.capped(
            self.finding(context, text, pointer=f"{pointer}/uri")
            for child, pointer in _children(context)
            if child["uri"].endswith("/")
        )


class _DirectoryAndEntryRule(Rule):
    """The base class of the rules about a directory and the entry of the skill around it."""

    who = "server"
    extension = SKILLS
    needs_session = True
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS | {READ_DIRECTORY}

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        book, request, uri = skills_of(context.session), context.request, requested_uri(context.request)
        if context.method in ENTRY_METHODS:
            book.record(context)
            return ()
        skill = book.enclosing(common_form(uri), request) if request is not None and uri is not None else None
        if request is None or uri is None or skill is None or skill.files is None:
            return ()
        return self.capped(self.compare(context, request, common_form(uri), skill, skill.files.keys()))

    def compare(
        self, context: MessageContext, request: Request, directory: str, skill: Skill, files: Iterable[str]
    ) -> Iterator[Finding]:
        """Compare a directory with the files of the skill around it."""
        raise NotImplementedError


class FileAsDirectory(_DirectoryAndEntryRule):
    """A server reads a file as a directory.

    **Why it matters.** Hosts learn from -32602 that it is a file. From a list, even an empty one, they conclude that it
    is a directory.

    **On the wire.** `> {"id":7,"method":"resources/directory/read","params":{"uri":"skill://refunds/SKILL.md",…}}`
    `< {"id":7,"result":{"resultType":"complete","resources":[]}}`

    **Instead.** Refuse the request with -32602.
    """

    id = "ext-skills/file-as-directory"
    impact = Impact.WRONG

    def compare(
        self, context: MessageContext, request: Request, directory: str, skill: Skill, files: Iterable[str]
    ) -> Iterator[Finding]:
        if directory in files and isinstance(member(context.body["result"], "resources"), list):
            text = "a file that an entry lists is read as a directory"
            yield self.finding(context, text, pointer="/result/resources", related=(skill.seq, request.seq))


class SubdirectoryType(_DirectoryAndEntryRule):
    """A subdirectory is not marked as a directory.

    **Why it matters.** Hosts take it for a file, and the files in it cannot be found.

    **On the wire.** `< …"resources":[{"uri":"skill://refunds/templates/eu","name":"eu"}]`

    **Instead.** `"mimeType":"inode/directory"`
    """

    id = "ext-skills/subdirectory-type"
    impact = Impact.WRONG

    def compare(
        self, context: MessageContext, request: Request, directory: str, skill: Skill, files: Iterable[str]
    ) -> Iterator[Finding]:
        start = f"{directory}/"
        names = {
            file[len(start) :].partition("/")[0]
            for file in files
            if file.startswith(start) and "/" in file[len(start) :]
        }
        for child, pointer in _children(context):
            form = common_form(child["uri"])
            if form.startswith(start) and form[len(start) :] in names and child.get("mimeType") != _DIRECTORY:
                text = f"a subdirectory does not have the mimeType {_DIRECTORY}"
                yield self.finding(context, text, pointer=f"{pointer}/mimeType", related=(skill.seq, request.seq))


class DirectoryDiffers(_DirectoryAndEntryRule):
    """A directory does not have the files that the entry of its skill lists.

    **Why it matters.** It is legal, but it shows that the skill has changed. A host must not read the new files until
    it has requested the entry again.

    **On the wire.** `< …"resources":[…,{"uri":"skill://refunds/templates/new.md",…}]` without that file in the entry

    **Instead.** Request the entry again with `skills/get`, and ask the user to approve the changed skill.
    """

    id = "ext-skills/directory-differs"
    level = NOTE

    def compare(
        self, context: MessageContext, request: Request, directory: str, skill: Skill, files: Iterable[str]
    ) -> Iterator[Finding]:
        start, names = f"{directory}/", set[str]()
        forms = {common_form(child["uri"]) for child, _ in _children(context)}
        children = {form[len(start) :] for form in forms if form.startswith(start) and "/" not in form[len(start) :]}
        names.update(file[len(start) :].partition("/")[0] for file in files if file.startswith(start))
        is_whole = cursor_of(request) is None and "nextCursor" not in context.body["result"]
        new, gone = len(children - names), len(names - children) if is_whole else 0
        # An empty list may be a failure, or a file; what is not a child is reported by another rule.
        if children and len(children) == len(forms) and (new or gone):
            counts = ((new, "not in the entry"), (gone, "missing from the directory"))
            text = "the entry of the skill differs: " + ", ".join(f"{count} {word}" for count, word in counts if count)
            yield self.finding(context, text, pointer="/result/resources", related=(skill.seq, request.seq))


# ---- shared by the rules


def _children(context: MessageContext) -> Iterator[tuple[dict[str, Any], str]]:
    """Yields the children in a result that have a URI, each with its place."""
    children = member(context.body["result"], "resources")
    for index, child in enumerate(children[:MAX_CHECKED_CHILDREN] if isinstance(children, list) else ()):
        if isinstance(member(child, "uri"), str):
            yield child, f"/result/resources/{index}"
