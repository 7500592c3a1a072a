"""The group `meta`: `_meta`, and other members that many messages share: icons, annotations, MIME types, names."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from analysis.conversation.annotated_objects import (
    MAX_EXAMINED_ITEMS,
    USUAL_META_KEYS,
    annotated_objects,
    body_member,
    icons,
    may_have_annotated_objects,
)
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.conversation.session import CLIENT_INFO, SERVER_INFO
from analysis.conversation.trace_context import has_traceparent_form
from analysis.protocol import features
from analysis.protocol.extensions import KNOWN_METHODS, is_extension_member
from analysis.protocol.json_pointer import encode_step
from analysis.protocol.revisions import MODERN_ERA
from analysis.rules.base import NOTE, WARNING, MetaObjects, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.unchanged_content import REPEATED_METHODS, WordsScope

_MAX_REPORTED_FINDINGS: Final = 10
"""The most findings of a rule about one message that are reported individually."""
_RESERVED_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_is_key: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?").fullmatch
_is_plain: Final = re.compile(r"[A-Za-z0-9]").fullmatch
_is_time: Final = re.compile(
    r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?|-?[0-3]\d\d|-?W[0-5]\d(?:-?[1-7])?"
    r"|(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))?"
    r"(?:[Tt ](?:[01]\d|2[0-4])(?::?[0-5]\d(?::?[0-6]\d)?)?(?:[.,]\d+)?(?:[Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
).fullmatch
_is_mime: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(?:;.*)?", re.DOTALL).fullmatch
_is_size: Final = re.compile(r"[0-9]+x[0-9]+|any").fullmatch
_match_scheme: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):").match
_FORBIDDEN_SCHEMES: Final = frozenset({"javascript", "file", "ftp", "ws"})
_MAX_TIMESTAMP_CHARS: Final = 200
"""The most characters of a timestamp; a longer one is invalid."""


class _SharedMemberRule(Rule):
    """A rule about members that any message may have."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return may_have_annotated_objects("result" if hook == "result" else "params", method, like.era)

    def decisive_words(self, hook: str, method: str, _like: MessageContext) -> WordsScope | None:
        if method in REPEATED_METHODS:
            return "result" if hook == "result" else "envelope"
        # A message of a method without such objects can have them only in its envelope, where its sender names itself.
        return (
            None
            if may_have_annotated_objects("result" if hook == "result" else "params", method, "handshake")
            else "envelope"
        )

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self.check(context), _MAX_REPORTED_FINDINGS)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self.check(context), _MAX_REPORTED_FINDINGS)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self.check(context), _MAX_REPORTED_FINDINGS)

    def check(self, context: MessageContext) -> Iterator[Finding]:
        """Yields the findings about a message."""
        raise NotImplementedError


class _MetaRule(Rule):
    """A rule about `_meta`, wherever it occurs."""

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - there is one hook
        return method in KNOWN_METHODS


class NotObject(_MetaRule):
    """`_meta` is not an object.

    **Why it matters.** Code that reads its members fails; at best, the receiver refuses the message.

    **On the wire.** `> {"id":3,"method":"tools/call","params":{"name":"dig","_meta":"trace-7"}}`

    **Instead.** Send an object, or leave it out.
    """

    id = "meta/not-object"
    impact = Impact.MESSAGE
    replaces = ("schema/*",)
    source = "2024-11-05 schema"

    def on_meta(self, context: MessageContext, metas: MetaObjects) -> Iterable[Finding]:
        pointers = [pointer for pointer, meta in metas if not isinstance(meta, dict) and meta is not None]
        if context.era == "modern" and isinstance(context.message, Request):
            pointers = [pointer for pointer in pointers if pointer != "/params/_meta"]  # `modern/*` reports it
        return self.capped(
            (self.finding(context, "_meta is not an object", pointer=pointer) for pointer in pointers),
            _MAX_REPORTED_FINDINGS,
        )


class InvalidKey(_MetaRule):
    """A key of `_meta` is not of the form `prefix/name`, or `name`.

    **Why it matters.** The prefix names the owner of the key, like a domain, so that keys of different vendors do not
    collide. Receivers may refuse or drop keys of any other form.

    **On the wire.** `< {"id":3,"result":{"content":[],"_meta":{"com..example/cost":1}}}`

    **Instead.** Use a prefix of labels separated by dots, with a slash at the end, such as `com.example/`, and then a
    name of letters and digits with `-`, `_` or `.` in between.
    """

    id = "meta/invalid-key"
    versions = features.META_KEYS
    source = "2025-06-18 basic/index"

    def on_meta(self, context: MessageContext, metas: MetaObjects) -> Iterable[Finding]:
        findings_by_object = [
            self._key_findings(context, pointer, meta) for pointer, meta in metas if isinstance(meta, dict)
        ]
        return self.capped((finding for findings in findings_by_object for finding in findings), _MAX_REPORTED_FINDINGS)

    def _key_findings(self, context: MessageContext, pointer: str, meta: dict[str, Any]) -> Iterator[Finding]:
        for key in islice(meta, MAX_EXAMINED_ITEMS):
            if not _is_key(key):
                text = f"the key {shortened(key)!r} of _meta is not of the form prefix/name: {_key_fault(key)}"
                yield self.finding(context, text, pointer=f"{pointer}/{encode_step(shortened(key))}")


class ReservedPrefix(_MetaRule):
    """A key of `_meta` has a prefix that is reserved for MCP, but no revision or known extension defines the key.

    **Why it matters.** A later revision may give that key another meaning.

    **On the wire.** `> {"id":3,…,"params":{"_meta":{"io.modelcontextprotocol/priority":1}}}`

    **Instead.** Use a prefix of your own, such as `com.example/`.
    """

    id = "meta/reserved-prefix"
    versions = features.META_KEYS
    level = WARNING
    source = "2025-06-18 basic/index; 2025-11-25 basic/index"

    def on_meta(self, context: MessageContext, metas: MetaObjects) -> Iterable[Finding]:
        findings_by_object = [
            self._key_findings(context, pointer, meta) for pointer, meta in metas if isinstance(meta, dict)
        ]
        return self.capped((finding for findings in findings_by_object for finding in findings), _MAX_REPORTED_FINDINGS)

    def _key_findings(self, context: MessageContext, pointer: str, meta: dict[str, Any]) -> Iterator[Finding]:
        for key in islice(meta, MAX_EXAMINED_ITEMS):
            if "/" in key and key not in USUAL_META_KEYS and _is_reserved(key, context.rank) and _is_key(key):
                if is_extension_member(key):
                    continue
                text = f"the prefix of {shortened(key)!r} in _meta is reserved"
                yield self.finding(context, text, pointer=f"{pointer}/{encode_step(shortened(key))}")


class TraceContext(_MetaRule):
    """The trace context in `_meta` does not have the form that the W3C defines.

    **Why it matters.** Tracing tools cannot follow the call beyond this point.

    **On the wire.** `> …"_meta":{…,"traceparent":"4bf92f3577b34da6a3ce929d0e0e4736"}`

    **Instead.** Send `00-` and 32, 16 and 2 lower-case hexadecimal digits, separated by hyphens; `tracestate` and
    `baggage` are strings.
    """

    id = "meta/trace-context"
    versions = MODERN_ERA
    source = "2026-07-28 basic/index"

    def on_meta(self, context: MessageContext, metas: MetaObjects) -> Iterable[Finding]:  # noqa: ARG002 - only one `_meta` has it
        meta = member(context.body.get(body_member(context)), "_meta")
        if not isinstance(meta, dict) or ("traceparent" not in meta and _TRACE_STRINGS.isdisjoint(meta)):
            return ()
        return self._trace_findings(context, meta)

    def _trace_findings(self, context: MessageContext, meta: dict[str, Any]) -> Iterator[Finding]:
        meta_pointer = f"/{body_member(context)}/_meta"
        traceparent = meta.get("traceparent")
        if "traceparent" in meta and not (
            isinstance(traceparent, str)
            and len(traceparent) <= MAX_EXAMINED_ITEMS
            and has_traceparent_form(traceparent)
        ):
            yield self.finding(
                context,
                "traceparent does not have the form that the W3C defines",
                pointer=f"{meta_pointer}/traceparent",
            )
        for name in sorted(_TRACE_STRINGS):
            if name in meta and not isinstance(meta[name], str):
                yield self.finding(context, f"{name} is not a string", pointer=f"{meta_pointer}/{name}")


class IconScheme(_SharedMemberRule):
    """The address of an icon is neither an `https:` nor a `data:` URI.

    **Why it matters.** Clients must accept only `https:` and `data:`. With other schemes, an icon could run a script or
    read one of the user's files.

    **On the wire.** `< …"icons":[{"src":"file:///usr/share/icons/note.png"}]`

    **Instead.** Use `https:` from a host that is as trusted as the server, or `data:`.
    """

    id = "meta/icon-scheme"
    who = "server"
    versions = features.ICONS
    level = WARNING
    impact = Impact.SECURITY
    required_word = b'"icons"'
    source = "2025-11-25 basic/index"

    def check(self, context: MessageContext) -> Iterator[Finding]:
        for pointer, owner in annotated_objects(context):
            for icon_pointer, icon in icons(owner):
                source = icon.get("src")
                scheme = _match_scheme(source) if isinstance(source, str) else None
                scheme_name = scheme[1].lower() if scheme is not None else "https"
                if scheme_name not in ("https", "data"):
                    consequence = "; clients must reject it" if scheme_name in _FORBIDDEN_SCHEMES else ""
                    text = f"the icon has the scheme {scheme_name}, not https or data{consequence}"
                    yield self.finding(
                        context, text, pointer=f"{pointer}{icon_pointer}/src", blames=context.message.sender
                    )


class IconSize(_SharedMemberRule):
    """The size or the theme of an icon has a form that no revision defines.

    **Why it matters.** The client cannot choose the best icon, and uses the first one.

    **On the wire.** `< …"icons":[{"src":"https://example.com/a.png","sizes":["48"],"theme":"night"}]`

    **Instead.** Send `"sizes":["48x48"]` or `["any"]`; a theme is `light` or `dark`.
    """

    id = "meta/icon-size"
    versions = features.ICONS
    level = NOTE
    replaces = ("schema/*",)
    required_word = b'"icons"'
    source = "2025-11-25 schema Icon"

    def check(self, context: MessageContext) -> Iterator[Finding]:
        for pointer, owner in annotated_objects(context):
            for icon_pointer, icon in icons(owner):
                sizes, theme = icon.get("sizes"), icon.get("theme")
                for index, size in enumerate(islice(sizes, MAX_EXAMINED_ITEMS)) if isinstance(sizes, list) else ():
                    if isinstance(size, str) and not _is_size(size):
                        text = f"the size {shortened(size)!r} of an icon is neither WxH nor any"
                        yield self.finding(context, text, pointer=f"{pointer}{icon_pointer}/sizes/{index}")
                if isinstance(theme, str) and theme not in ("light", "dark"):
                    text = f"the theme {shortened(theme)!r} of an icon is neither light nor dark"
                    yield self.finding(context, text, pointer=f"{pointer}{icon_pointer}/theme")


class AnnotationTime(_SharedMemberRule):
    """The `lastModified` of an annotation is not an ISO 8601 timestamp.

    **Why it matters.** Clients cannot sort by such a value, and have to guess which part is the day.

    **On the wire.** `< …"annotations":{"lastModified":"12/01/2025"}`

    **Instead.** `2025-01-12T15:00:58Z`
    """

    id = "meta/annotation-time"
    versions = features.ANNOTATION_TIMES
    level = WARNING
    impact = Impact.WRONG
    required_word = b'"lastModified"'
    source = "2025-06-18 server/resources"

    def check(self, context: MessageContext) -> Iterator[Finding]:
        for pointer, owner in annotated_objects(context):
            timestamp = member(owner.get("annotations"), "lastModified")
            if isinstance(timestamp, str) and (len(timestamp) > _MAX_TIMESTAMP_CHARS or not _is_time(timestamp)):
                text = "lastModified is not an ISO 8601 timestamp"
                yield self.finding(context, text, pointer=f"{pointer}/annotations/lastModified")


class MimeType(_SharedMemberRule):
    """A MIME type is invalid, or does not match its image or audio content.

    **Why it matters.** Clients decide by the MIME type how to show the content.

    **On the wire.** `< …"content":[{"type":"image","data":"…","mimeType":"png"}]`

    **Instead.** Send a type and a subtype: `image/png`.
    """

    id = "meta/mime-type"
    level = NOTE
    required_word = b'"mimeType"'
    source = "2024-11-05 server/prompts"

    def check(self, context: MessageContext) -> Iterator[Finding]:
        for pointer, annotated_object in annotated_objects(context):
            if "mimeType" not in annotated_object and "icons" not in annotated_object:
                continue
            for owner_pointer, owner in [("", annotated_object), *icons(annotated_object)]:
                mime_type, kind = owner.get("mimeType"), owner.get("type")
                if not isinstance(mime_type, str):
                    continue
                if not _is_mime(mime_type):
                    text = f"the MIME type {shortened(mime_type)!r} is not of the form type/subtype"
                elif (
                    isinstance(kind, str) and kind in _CONTENT_PHRASES and not mime_type.lower().startswith(f"{kind}/")
                ):
                    text = f"the MIME type of {_CONTENT_PHRASES[kind]} is {shortened(mime_type)!r}"
                else:
                    continue
                yield self.finding(context, text, pointer=f"{pointer}{owner_pointer}/mimeType")


class ImplementationEmpty(Rule):
    """The client or the server sends an empty name or version for itself.

    **Why it matters.** Logs and server lists cannot show it, and after a failure it is unclear which version was
    running.

    **On the wire.** `< {"id":1,"result":{…,"serverInfo":{"name":"notes","version":""}}}`

    **Instead.** Send the name and version that users know. Some SDKs send an empty version unless you set one.
    """

    id = "meta/implementation-empty"
    level = NOTE
    once = True
    source = "2024-11-05 schema Implementation"

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return hook in ("request", "result") and (method == "initialize" or like.era == "modern")

    def decisive_words(self, _hook: str, method: str, _like: MessageContext) -> WordsScope | None:
        return None if method == "initialize" else "envelope"

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.sender != "client":
            return ()
        if request.method == "initialize":
            return self._check_info(context, member(request.params, "clientInfo"), "/params/clientInfo")
        return self._check_info(context, request.meta.get(CLIENT_INFO), "/params/_meta/" + encode_step(CLIENT_INFO))

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender != "server":
            return ()
        result = context.body["result"]
        if context.method == "initialize":
            return self._check_info(context, member(result, "serverInfo"), "/result/serverInfo")
        return self._check_info(
            context, member(member(result, "_meta"), SERVER_INFO), "/result/_meta/" + encode_step(SERVER_INFO)
        )

    def _check_info(self, context: MessageContext, info: object, pointer: str) -> Iterable[Finding]:
        if not isinstance(info, dict) or (info.get("name") != "" and info.get("version") != ""):
            return ()
        name = "name" if info.get("name") == "" else "version"
        return [self.finding(context, f"the {context.message.sender}'s {name} is empty", pointer=f"{pointer}/{name}")]


# ---- shared by the rules

_CONTENT_PHRASES: Final = {"image": "an image", "audio": "audio"}
_TRACE_STRINGS: Final = frozenset({"tracestate", "baggage"})


def _key_fault(key: str) -> str:
    """Returns which part of an invalid key is at fault, and why."""
    prefix, slash, name = key.partition("/") if "/" in key else ("", "", key)
    for label in prefix.split(".") if slash else ():
        if not label:
            return "its prefix has an empty label" if prefix else "its prefix is empty"
        fault = _part_fault(label, "-", "letter")
        if fault:
            return f"the label {shortened(label)!r} of its prefix {fault}"
    return f"its name {_part_fault(name, '-_.', 'letter or digit') or 'is invalid'}"


def _part_fault(part: str, punctuation: str, first_kind: str) -> str:
    """Returns what is wrong with a label or a name, or an empty string if it is valid.

    Args:
        part: the label or name.
        punctuation: the characters other than letters and digits that it may contain, but not at its ends.
        first_kind: the kind of character that it must begin with.
    """
    invalid_character = next(
        (character for character in part if not _is_plain(character) and character not in punctuation), None
    )
    if invalid_character is not None:
        return f"contains {invalid_character!r}"
    if not _is_plain(part[0]) or (first_kind == "letter" and part[0].isdigit()):
        return f"begins with {part[0]!r}, not with a {first_kind}"
    return "" if _is_plain(part[-1]) else f"ends with {part[-1]!r}, not with a letter or digit"


def _is_reserved(key: str, rank: int | None) -> bool:
    labels = key.partition("/")[0].split(".", MAX_EXAMINED_ITEMS)
    is_reserved_in_2025_06_18 = len(labels) > 1 and labels[-2] in _RESERVED_LABELS
    is_reserved_now = len(labels) > 1 and labels[1] in _RESERVED_LABELS
    if rank is None:
        return is_reserved_in_2025_06_18 and is_reserved_now
    return is_reserved_now if features.RESERVED_SECOND_LABELS.includes(rank) else is_reserved_in_2025_06_18
