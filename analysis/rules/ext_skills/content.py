"""Contents of skills, as `resources/read` returns them, compared with the entry that lists them.

A skill may change between its entry and a read, so a difference alone only means that the host must not use the
content. It is the server's fault if the same server lists the same digest again afterwards, or if the digest turns out
to be that of the same text in another form.
"""

from base64 import b64decode
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple

from analysis.conversation.call import MessageContext
from analysis.protocol.extensions import SKILLS
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import ERROR, NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.frontmatter import UndecidableError, differing_members, frontmatter_of, member_names
from analysis.rules.support.skill_uris import common_form
from analysis.rules.support.skills import (
    CHANGE_NOTIFICATIONS,
    ENTRY_METHODS,
    HAS_SKILLS,
    MAX_SKILLS,
    READ,
    READ_DIRECTORY,
    Skill,
    SkillBook,
    raw_entries,
    requested_uri,
    skills_of,
)

MAX_HASHED_BYTES: Final = 32 << 20
"""The largest content that is compared with its digest."""
MAX_VARIANT_BYTES: Final = 1 << 20
"""The largest content of which other forms are tried, too."""
MAX_DISTRUSTED_FILES: Final = 1_000
"""The most files of one session that are remembered because their content did not fit."""
MAX_COMPARED_RESOURCES: Final = 10_000
"""The most resources of one result that are compared with skills."""

_MARKDOWN: Final = "text/markdown"
_RESOURCE_LIST: Final = "resources/list"


class Content(NamedTuple):
    """The content of one file, as it was read."""

    raw: bytes
    text: str | None
    """The text; None for a blob."""
    blob: str | None
    """The text of a blob; None for a text."""


class _ContentRule(Rule):
    """The base class of the rules about files of skills that a host reads."""

    who = "server"
    extension = SKILLS
    needs_session = True
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS | {READ}

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all hooks
        return method in ENTRY_METHODS or HAS_SKILLS in like.session.learned

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        book = skills_of(context.session)
        if context.method in ENTRY_METHODS:
            book.record(context)
            return self.capped(self.check_entries(context))
        if self.fold.is_redacted:
            return ()  # contents may have been replaced, but not their digests
        uri = requested_uri(context.request)
        read = _read_item(context, uri) if uri is not None else None
        if uri is None or read is None:
            return ()
        return list(self.check_content(context, common_form(uri), *read, book))

    def check_entries(self, context: MessageContext) -> Iterator[Finding]:  # noqa: ARG002 - for rules that override it
        """Check the entries of a result."""
        return iter(())

    def check_content(
        self, context: MessageContext, uri: str, content: Content, pointer: str, book: SkillBook
    ) -> Iterator[Finding]:
        """Check what was read of a URI; `pointer` is the place of the content."""
        raise NotImplementedError


class DigestMismatch(_ContentRule):
    """The content of a file does not have the digest or the size that the entry of its skill lists.

    **Why it matters.** Hosts must not use such content. It is a warning while the server lets hosts keep the entry, and
    a note after that (`ttlMs`) or once it has announced a change: then the file may be newer. It is an error if the
    server lists the same digest again, or has computed it from another form of the text.

    **On the wire.** `< …{"uri":"skill://refunds/SKILL.md","digest":"sha256:9f86…","size":3871}` …
    `> {"id":5,"method":"resources/read","params":{"uri":"skill://refunds/SKILL.md",…}}` and a text of 3,902 bytes

    **Instead.** Compute the digest from the bytes that you send: the text in UTF-8 as it is in `text`, or the bytes
    before they are encoded as `blob`. Do not change line ends after that.
    """

    id = "ext-skills/digest-mismatch"
    level = WARNING
    impact = Impact.WRONG
    methods = _ContentRule.methods | CHANGE_NOTIFICATIONS

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        skills_of(context.session).expire(context)
        return ()

    def check_content(
        self, context: MessageContext, uri: str, content: Content, pointer: str, book: SkillBook
    ) -> Iterator[Finding]:
        request = context.request
        file = book.file_for(uri, request) if request is not None else None
        if request is None or file is None or not file.digest or _digest(content.raw) == file.digest:
            return
        related, form = (file.seq, request.seq), _form_with(file.digest, content)
        if form is not None:
            text = f"the digest of the entry is that of {form}"
            yield self.finding(context, text, pointer=pointer, related=related, level=ERROR)
            return
        distrusted: dict[str, tuple[str, int]] = self.state_for(context.session, dict)
        if uri in distrusted or len(distrusted) < MAX_DISTRUSTED_FILES:
            distrusted[uri] = file.digest, context.message.seq
        text = "the content does not have the digest of the entry"
        if file.size is not None and file.size != len(content.raw):
            text = f"the content has {len(content.raw)} bytes, not {file.size} as in the entry"
        level = WARNING if book.is_fresh(file.owner, request) else NOTE
        yield self.finding(context, text, pointer=pointer, related=related, level=level)

    def check_entries(self, context: MessageContext) -> Iterator[Finding]:
        distrusted: dict[str, tuple[str, int]] = self.state_for(context.session, dict)
        if not distrusted or context.request is None:
            return
        files = (
            (common_form(uri), listed, pointer)
            for entry in raw_entries(context)
            for uri, listed, pointer in entry.files()
        )
        for uri, listed, pointer in files:
            digest, read_seq = distrusted.get(uri, ("", 0))
            if digest and context.request.seq > read_seq:
                del distrusted[uri]
                if listed.get("digest") == digest:
                    text = "the digest is listed again, although the content that was read does not have it"
                    yield self.finding(context, text, pointer=f"{pointer}/digest", related=(read_seq,), level=ERROR)


class WrongSize(_ContentRule):
    """The size of a file in an entry is wrong, although its digest is right.

    **Why it matters.** Hosts that compare the size refuse the file, even before they compute the digest.

    **On the wire.** `"size":3` for a file with the text `für`, which has 4 bytes

    **Instead.** Count the bytes over which the digest is computed, not characters.
    """

    id = "ext-skills/wrong-size"

    def check_content(
        self, context: MessageContext, uri: str, content: Content, pointer: str, book: SkillBook
    ) -> Iterator[Finding]:
        request = context.request
        file = book.file_for(uri, request) if request is not None else None
        if request is None or file is None or file.size is None or file.size == len(content.raw):
            return
        if file.digest and _digest(content.raw) == file.digest:
            counts = ", the number of its characters" if content.text and file.size == len(content.text) else ""
            text = f"a file of {len(content.raw)} bytes was listed with the size {file.size}{counts}"
            yield self.finding(context, text, pointer=pointer, related=(file.seq, request.seq))


class NoFrontmatter(_ContentRule):
    """The `SKILL.md` of a listed skill does not begin with frontmatter that has a name and a description.

    **Why it matters.** Hosts compare the frontmatter with the entry, and must not load the skill if it differs.

    **On the wire.** `< …"contents":[{"uri":"skill://refunds/SKILL.md","text":"# Refunds\\n…"}]`

    **Instead.** Send the whole file, from the first `---` on.
    """

    id = "ext-skills/no-frontmatter"

    def check_content(
        self, context: MessageContext, uri: str, content: Content, pointer: str, book: SkillBook
    ) -> Iterator[Finding]:
        skill, text = _skill_read(context, uri, content, book)
        if skill is None or text is None:
            return
        frontmatter = frontmatter_of(text)
        if frontmatter is None:
            fault = "does not end" if text.removeprefix("\ufeff").startswith("---") else "is missing"
            yield self.finding(context, f"the frontmatter of SKILL.md {fault}", pointer=pointer, related=(skill.seq,))
            return
        try:
            names = member_names(frontmatter)
        except UndecidableError:
            return
        for name in ("name", "description"):
            if name not in names:
                fault = f"the frontmatter of SKILL.md has no {name}"
                yield self.finding(context, fault, pointer=pointer, related=(skill.seq,))


class FrontmatterMismatch(_ContentRule):
    """The frontmatter of a `SKILL.md` differs from that of its entry.

    **Why it matters.** What users approve from the entry would not be what the model gets, so hosts must not load the
    skill. It is an error if the digest is that of the entry; otherwise a warning, because the file may have changed.

    **On the wire.** `< …"frontmatter":{"name":"refunds","description":"Refunds"}` … and a `SKILL.md` that begins with
    `---\\nname: refunds\\ndescription: Process refunds\\nlicense: MIT\\n---`

    **Instead.** Send all members of the frontmatter in the entry, without changes.
    """

    id = "ext-skills/frontmatter-mismatch"
    level = ERROR

    def check_content(
        self, context: MessageContext, uri: str, content: Content, pointer: str, book: SkillBook
    ) -> Iterator[Finding]:
        skill, text = _skill_read(context, uri, content, book)
        frontmatter = frontmatter_of(text) if text is not None else None
        if skill is None or not skill.frontmatter or frontmatter is None:
            return
        file = (skill.files or {}).get(uri)
        is_same_file = file is not None and file.digest == _digest(content.raw)
        if not is_same_file and not skill.is_dynamic:
            return  # another rule reports the digest
        try:
            names = differing_members(frontmatter, skill.frontmatter)
        except UndecidableError:
            return
        if names:
            more = f", and {len(names) - 1} more" if len(names) > 1 else ""
            fault = f"the frontmatter of SKILL.md and that of the entry differ in {shortened(names[0])!r}{more}"
            level = ERROR if is_same_file else WARNING
            yield self.finding(context, fault, pointer=pointer, related=(skill.seq,), level=level)


class ResourceMetadata(Rule):
    """The resource of a `SKILL.md` has another name or description than the skill, or another type than Markdown.

    **Why it matters.** Hosts that do not know skills show the resource by this name and type. A description that
    differs is only a note once the entry may no longer be kept (`ttlMs`, or an announced change).

    **On the wire.** `< …"resources":[{"uri":"skill://refunds/SKILL.md","name":"SKILL.md","mimeType":"text/plain"}]`

    **Instead.** `"name":"refunds","mimeType":"text/markdown"`
    """

    id = "ext-skills/resource-metadata"
    who = "server"
    extension = SKILLS
    level = WARNING
    impact = Impact.HINT
    needs_session = True
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS | {READ, _RESOURCE_LIST} | CHANGE_NOTIFICATIONS

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the same for all hooks
        return method in ENTRY_METHODS or HAS_SKILLS in like.session.learned

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        skills_of(context.session).expire(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        book = skills_of(context.session)
        if context.method in ENTRY_METHODS:
            book.record(context)
            return ()
        return self.capped(self._check_resources(context, book))

    def _check_resources(self, context: MessageContext, book: SkillBook) -> Iterator[Finding]:
        list_member = "resources" if context.method == _RESOURCE_LIST else "contents"
        resources = member(context.body["result"], list_member)
        for index, resource in enumerate(resources[:MAX_COMPARED_RESOURCES] if isinstance(resources, list) else ()):
            uri = member(resource, "uri")
            skill = book.skills.get(common_form(uri)) if isinstance(uri, str) else None
            if skill is None:
                continue
            name, mime_type, pointer = resource.get("name"), resource.get("mimeType"), f"/result/{list_member}/{index}"
            if isinstance(mime_type, str) and mime_type.partition(";")[0].strip().lower() != _MARKDOWN:
                text = f"the mimeType of a SKILL.md is not {_MARKDOWN}"
                yield self.finding(context, text, pointer=f"{pointer}/mimeType", related=(skill.seq,))
            if list_member == "contents":
                continue
            skill_name = (skill.frontmatter or {}).get("name")
            if isinstance(skill_name, str) and name != skill_name:
                text = "the name of a SKILL.md is not that of the skill"
                yield self.finding(context, text, pointer=f"{pointer}/name", related=(skill.seq,))
            described, description = resource.get("description"), (skill.frontmatter or {}).get("description")
            if isinstance(described, str) and isinstance(description, str) and described != description:
                text = "the description of a SKILL.md is not that of the entry"
                is_fresh = context.request is not None and book.is_fresh(common_form(resource["uri"]), context.request)
                level = WARNING if is_fresh else NOTE  # it may have changed
                yield self.finding(context, text, pointer=f"{pointer}/description", related=(skill.seq,), level=level)


class MetaPrefix(Rule):
    """A key in `_meta` of a skill's resource has no prefix.

    **Why it matters.** `_meta` is shared by all extensions and products, so a key without a prefix can mean something
    else to another program. Skills reserves a prefix for what a server takes from the frontmatter.

    **On the wire.** `< …"resources":[{"uri":"skill://refunds/SKILL.md",…,"_meta":{"license":"MIT"}}]`

    **Instead.** `"_meta":{"io.modelcontextprotocol.skills/license":"MIT"}`, or a prefix of your own.
    """

    id = "ext-skills/meta-prefix"
    who = "server"
    extension = SKILLS
    level = WARNING
    impact = Impact.HINT
    needs_session = True
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS | {READ, READ_DIRECTORY, _RESOURCE_LIST}
    once = True

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in ENTRY_METHODS or HAS_SKILLS in like.session.learned

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        book, request = skills_of(context.session), context.request
        if context.method in ENTRY_METHODS:
            book.record(context)
            return ()
        if request is None:
            return ()
        list_member = "contents" if context.method == READ else "resources"
        resources = member(context.body["result"], list_member)
        for index, resource in enumerate(resources[:MAX_COMPARED_RESOURCES] if isinstance(resources, list) else ()):
            uri, meta = member(resource, "uri"), member(resource, "_meta")
            if not isinstance(uri, str) or not isinstance(meta, dict):
                continue
            skill = book.enclosing(common_form(uri), request)
            key = next((key for key in meta if "/" not in key), None)
            if skill is not None and key is not None:
                text = f"the key {shortened(key)!r} in _meta of a skill's resource has no prefix"
                pointer = f"/result/{list_member}/{index}/_meta/{encode_step(shortened(key))}"
                return [self.finding(context, text, pointer=pointer, related=(skill.seq,))]
        return ()


# ---- shared by the rules


def _read_item(context: MessageContext, uri: str) -> tuple[Content, str] | None:
    """Returns the only content with the requested URI and its place, or None if it is missing or cannot be decoded."""
    contents, form = member(context.body["result"], "contents"), common_form(uri)
    if not isinstance(contents, list) or len(contents) > MAX_SKILLS:
        return None
    items = [
        (item, index)
        for index, item in enumerate(contents)
        if isinstance(item_uri := member(item, "uri"), str) and common_form(item_uri) == form
    ]
    if len(items) != 1:
        return None
    item, index = items[0]
    content = _content(item)
    return None if content is None else (content, f"/result/contents/{index}")


def _content(item: dict[str, Any]) -> Content | None:
    text, blob = item.get("text"), item.get("blob")
    try:
        if isinstance(text, str) and len(text) <= MAX_HASHED_BYTES:
            return Content(text.encode(), text, None)
        if isinstance(blob, str) and len(blob) <= MAX_HASHED_BYTES:
            return Content(b64decode(blob, validate=True), None, blob)
    except ValueError:
        pass  # a lone surrogate, or not base64
    return None


def _skill_read(
    context: MessageContext, uri: str, content: Content, book: SkillBook
) -> tuple[Skill | None, str | None]:
    """Returns the skill of which a `SKILL.md` was read, and its text; None for what is not known."""
    skill = book.skill_for(uri, context.request) if context.request is not None else None
    if skill is None:
        return None, None
    try:
        return skill, content.raw.decode()
    except UnicodeDecodeError:
        return skill, None


def _digest(raw: bytes) -> str:
    return f"sha256:{sha256(raw).hexdigest()}"


def _form_with(digest: str, content: Content) -> str | None:
    """Returns the other form of a content that has a digest, as words, or None if no known form has it."""
    if len(content.raw) > MAX_VARIANT_BYTES:
        return None
    if content.blob is not None:
        return "the base64 text of the blob" if _digest(content.blob.encode()) == digest else None
    raw = content.raw
    unix = raw.replace(b"\r\n", b"\n")
    forms = {
        "the text with CRLF line ends": unix.replace(b"\n", b"\r\n"),
        "the text with LF line ends": unix,
        "the text without the white space around it": raw.strip(),
        "the text with a newline at the end": raw + b"\n",
        "the text with a byte order mark": b"\xef\xbb\xbf" + raw,
        "the text without its byte order mark": raw.removeprefix(b"\xef\xbb\xbf"),
    }
    return next((words for words, form in forms.items() if form != raw and _digest(form) == digest), None)
