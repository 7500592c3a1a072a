"""Requests for skills and their files, and how they are answered."""

import re
from collections.abc import Iterable
from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.facts import code_of
from analysis.protocol.error_codes import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from analysis.protocol.extensions import SKILLS
from analysis.rules.base import NOTE, RACE_NS, WARNING, Rule
from analysis.rules.error.codes import code_text, text_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.skill_uris import SKILL_FILE, common_form, skill_root
from analysis.rules.support.skills import (
    CHANGE_NOTIFICATIONS,
    ENTRY_METHODS,
    GET,
    HAS_SKILLS,
    LIST,
    READ,
    READ_DIRECTORY,
    SkillBook,
    raw_entries,
    requested_uri,
    skills_of,
)

MIN_PREFETCHED_SKILLS: Final = 3
"""The fewest skills of a list that must all be read at once to look like a host that reads ahead."""

_says_missing: Final = re.compile(
    r"\b(?:not found|not exist|doesn't exist|no such|no (?:skill|directory)\b|unknown (?:skill|directory|resource|uri)"
    r"|not a (?:skill|directory))\b"
).search


class RequestedUri(Rule):
    """A client requests an entry by a URI that is not that of a `SKILL.md`.

    **Why it matters.** Only the URI of its `SKILL.md` identifies a skill, so the request fails.

    **On the wire.** `> {"id":5,"method":"skills/get","params":{"uri":"skill://refunds",…}}`

    **Instead.** `"uri":"skill://refunds/SKILL.md"`
    """

    id = "ext-skills/requested-uri"
    who = "client"
    extension = SKILLS
    impact = Impact.COST
    sender = "client"
    era = "modern"
    methods = frozenset({GET})

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        uri = requested_uri(context.request)
        if uri is None or ":" not in uri or skill_root(uri) is not None:
            return ()
        return [self.finding(context, "skills/get with a uri that does not end with /SKILL.md", pointer="/params/uri")]


class OtherSkill(Rule):
    """A server answers `skills/get` with the entry of another skill.

    **Why it matters.** The host may ask its user to approve the wrong skill, or cannot verify what it reads.

    **On the wire.** `> {"id":5,"method":"skills/get","params":{"uri":"skill://refunds/SKILL.md",…}}`
    `< {"id":5,"result":{…,"skill":{"uri":"skill://invoices/SKILL.md",…}}}`

    **Instead.** Send the entry with the requested URI, or refuse the request with -32602.
    """

    id = "ext-skills/other-skill"
    who = "server"
    extension = SKILLS
    sender = "server"
    era = "modern"
    methods = frozenset({GET})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        uri, request = requested_uri(context.request), context.request
        if uri is None or request is None:
            return ()
        return [
            self.finding(
                context, "the entry has another uri than requested", pointer="/result/skill/uri", related=(request.seq,)
            )
            for entry in raw_entries(context)
            if entry.uri is not None and common_form(entry.uri) != common_form(uri)
        ]


class NotFoundCode(Rule):
    """A request for a skill or a directory that does not exist is refused with a code other than -32602.

    **Why it matters.** -32602 tells a host that this URI is the problem, not the method or the server.

    **On the wire.** `> {"id":5,"method":"skills/get",…}` `< {"id":5,"error":{"code":-32002,"message":"Not found"}}`

    **Instead.** Send -32602, as for a resource that does not exist.
    """

    id = "ext-skills/not-found-code"
    who = "server"
    extension = SKILLS
    impact = Impact.WRONG
    sender = "server"
    era = "modern"
    methods = frozenset({GET, READ_DIRECTORY})
    replaces = ("error/retired-code",)

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        code, request = code_of(context.message), context.request
        if request is None or code is None or code in (INVALID_PARAMS, METHOD_NOT_FOUND):
            return ()
        if code != RESOURCE_NOT_FOUND and not _says_missing(text_of(context)):
            return ()
        thing = "skill" if request.method == GET else "directory"
        text = f"a request for an unknown {thing} is refused with {code_text(code)}, not {INVALID_PARAMS}"
        return [self.finding(context, text, pointer="/error/code", related=(request.seq,))]


class _KnownSkillRule(Rule):
    """The base class of the rules about requests for what an entry lists."""

    extension = SKILLS
    needs_session = True
    era = "modern"
    methods = ENTRY_METHODS | {READ, READ_DIRECTORY}

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        if hook == "result":
            return method in ENTRY_METHODS
        return HAS_SKILLS in like.session.learned

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        skills_of(context.session).record(context)
        return ()


class ListedNotServed(_KnownSkillRule):
    """A server refuses a skill, a file or a directory that its entries list.

    **Why it matters.** Hosts show a skill that cannot be loaded. It is a warning while the server lets hosts keep the
    entry (`ttlMs`) and announces no change, and then a note, because the skill may have been removed.

    **On the wire.** `< …"skills":[{"uri":"skill://refunds/SKILL.md",…}]` …
    `> {"id":5,"method":"skills/get","params":{"uri":"skill://refunds/SKILL.md",…}}`
    `< {"id":5,"error":{"code":-32602,…}}`

    **Instead.** Serve everything that is listed, and let entries expire soon if skills come and go.
    """

    id = "ext-skills/listed-not-served"
    who = "server"
    level = WARNING
    impact = Impact.WRONG
    methods = _KnownSkillRule.methods | CHANGE_NOTIFICATIONS

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender == "server":
            skills_of(context.session).expire(context)
        return ()

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        request, uri, book = context.request, requested_uri(context.request), skills_of(context.session)
        if request is None or uri is None or code_of(context.message) not in (INVALID_PARAMS, RESOURCE_NOT_FOUND):
            return ()
        if request.method == READ_DIRECTORY and uri.endswith("/"):
            return ()  # no directory has such a URI: the client is at fault
        source = _listing_source(request, common_form(uri), book)
        if source is None:
            return ()
        thing, seq, skill_uri = source
        level = WARNING if book.is_fresh(skill_uri, request) else NOTE
        text = f"a {thing} that an entry lists is refused"
        return [self.finding(context, text, pointer="/error", related=(seq, request.seq), level=level)]


class UnlistedRead(_KnownSkillRule):
    """A client reads a file in the directory of a skill that the skill's entry does not list.

    **Why it matters.** While a host uses a skill, it must treat such a file as forged. It is a note, because not every
    read belongs to a skill that is in use.

    **On the wire.** `< …{"uri":"skill://refunds/SKILL.md",…,"resources":[{"uri":"skill://refunds/SKILL.md",…}]}` …
    `> {"id":6,"method":"resources/read","params":{"uri":"skill://refunds/new.md",…}}`

    **Instead.** Request the entry again with `skills/get`, and ask the user to approve the changed skill.
    """

    id = "ext-skills/unlisted-read"
    who = "client"
    level = NOTE
    impact = Impact.SECURITY
    sender = None

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return super().concerns(hook, method, like) and (hook == "result" or method == READ)

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request, uri, book = context.request, requested_uri(context.request), skills_of(context.session)
        if request is None or uri is None:
            return ()
        form = common_form(uri)
        skill = book.enclosing(form, request)
        if skill is None or skill.files is None or form in skill.files or form == skill.root:
            return ()
        if any(listed.startswith(f"{form}/") for listed in skill.files) or book.file_for(form, request) is not None:
            return ()
        text = "a file is read that the entry of its skill does not list"
        return [self.finding(context, text, pointer="/params/uri", related=(skill.seq,))]


class ReadAhead(_KnownSkillRule):
    """A client reads every skill of a list as soon as it has the list.

    **Why it matters.** Hosts must not read skills before they are needed. It is a note, because nothing on the wire
    says why a client reads.

    **On the wire.** `< …"skills":[…]` with ten entries, and within two seconds ten `resources/read`, one for each

    **Instead.** Read a `SKILL.md` when the skill is loaded; its entry has all that is needed before that.
    """

    id = "ext-skills/read-ahead"
    who = "client"
    level = NOTE
    impact = Impact.COST
    needs_time = True
    once = True
    sender = None

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:
        return super().concerns(hook, method, like) and method == (LIST if hook == "result" else READ)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        super().on_result(context)
        state: dict[str, Any] = self.state_for(context.session, dict)
        forms = {common_form(entry.uri) for entry in raw_entries(context) if entry.uri is not None}
        is_whole = member(context.body["result"], "nextCursor") is None and len(forms) >= MIN_PREFETCHED_SKILLS
        state["unread"], state["count"] = (forms if is_whole else set()), len(forms)
        state["t_ns"], state["seq"] = context.message.t_ns, context.message.seq
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        uri, state = requested_uri(context.request), self.state_for(context.session, dict)
        if uri is None or not state.get("unread") or context.message.t_ns - state["t_ns"] > RACE_NS:
            return ()
        state["unread"].discard(common_form(uri))
        if state["unread"]:
            return ()
        text = f"all {state['count']} skills of a list are read within {RACE_NS // 10**9} s"
        return [self.finding(context, text, related=(state["seq"],))]


# ---- shared by the rules


def _listing_source(request: Request, form: str, book: SkillBook) -> tuple[str, int, str] | None:
    """Returns what is listed under a requested URI, or None if nothing is.

    The parts are a word for it, the number of the message with the entry, and the URI of the skill of the entry.
    """
    if request.method == GET:
        skill = book.skill_for(form, request)
        return None if skill is None else ("skill", skill.seq, form)
    if request.method == READ_DIRECTORY:
        skill = book.enclosing(form, request)
        if skill is None or not any(listed.startswith(f"{form}/") for listed in skill.files or ()):
            return None
        return "directory", skill.seq, f"{skill.root}/{SKILL_FILE}"
    file = book.file_for(form, request)
    return None if file is None else ("file", file.seq, file.owner)
