"""Declarations of the extension for skills, and what follows from them."""

from collections.abc import Iterable
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.facts import code_of
from analysis.protocol.declared_capabilities import DeclaredCapabilities, lacks
from analysis.protocol.error_codes import METHOD_NOT_FOUND
from analysis.protocol.extensions import EXTENSION_METHODS, SKILLS, declares, has_setting
from analysis.rules.base import ERROR, NOTE, WARNING, Rule
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.extension_rules import ExtensionShape, UndeclaredExtension
from analysis.rules.support.skills import ENTRY_METHODS, READ_DIRECTORY

_DISCOVER: Final = "server/discover"


class Shape(ExtensionShape):
    """The params or the result of a method of Skills does not have the defined shape.

    **Why it matters.** Hosts must not load a skill whose entry is invalid, and many refuse the whole list.

    **On the wire.** `< {"id":2,"result":{…,"skills":[{"uri":"skill://refunds/SKILL.md","frontmatter":{…}}]}}` without
    `resources`

    **Instead.** Each entry has `uri`, `frontmatter` with `name` and `description`, and `resources`: a list of files
    with `uri`, `digest` and `size`, or `"dynamic"`.
    """

    id = "ext-skills/shape"
    who = "either"
    extension = SKILLS


class Undeclared(UndeclaredExtension):
    """A client requests skills, but the server did not declare the extension, or is of an older revision.

    **Why it matters.** The request fails, or works by luck until the next version of the server.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"resources":{}}}}` … `> {"id":2,"method":"skills/list",…}`

    **Instead.** Send `skills/list` and `skills/get` only to servers that declare `io.modelcontextprotocol/skills`.
    """

    id = "ext-skills/undeclared"
    who = "client"
    extension = SKILLS
    methods = ENTRY_METHODS


class UndeclaredDirectory(UndeclaredExtension):
    """A client reads a directory, but the server did not declare `directoryRead`.

    **Why it matters.** Without the setting, a server need not know the method, and refuses the request with -32601.

    **On the wire.** `< …"extensions":{"io.modelcontextprotocol/skills":{}}` …
    `> {"id":4,"method":"resources/directory/read",…}`

    **Instead.** Check `"directoryRead":true` first; otherwise take the files from the entry of the skill.
    """

    id = "ext-skills/undeclared-directory"
    who = "client"
    extension = SKILLS
    level = ERROR
    methods = frozenset({READ_DIRECTORY})


class BeforeDeclaration(Rule):
    """A client requests skills before the server has declared anything.

    **Why it matters.** The server may not have skills at all. It is only a note, because the client may remember the
    declaration from an earlier connection.

    **On the wire.** `> {"id":1,"method":"skills/list",…}` as the first message

    **Instead.** Send `server/discover` first.
    """

    id = "ext-skills/before-declaration"
    who = "client"
    extension = SKILLS
    level = NOTE
    needs_start = True
    needs_session = True
    once = True
    sender = "client"
    era = "modern"
    methods = ENTRY_METHODS

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        if context.session.is_http or _declaration_of(context) is not None:
            return ()
        text = f"{context.method} is requested before the server has declared the extension"
        return [self.finding(context, text, pointer="/method")]


class ServedUndeclared(Rule):
    """A server serves skills, but did not declare the extension.

    **Why it matters.** Hosts request skills only from servers that declare them, so these skills are never shown.

    **On the wire.** `< {"id":1,"result":{…,"capabilities":{"resources":{}}}}` … `> {"id":2,"method":"skills/list",…}`
    `< {"id":2,"result":{…,"skills":[…]}}`

    **Instead.** `"capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`
    """

    id = "ext-skills/served-undeclared"
    who = "server"
    extension = SKILLS
    level = WARNING
    impact = Impact.WRONG
    needs_session = True
    sender = "server"
    era = "modern"
    methods = ENTRY_METHODS

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        declaration, request = _declaration_of(context), context.request
        if declaration is None or request is None or declares(declaration.capabilities, SKILLS) is not False:
            return ()
        text = f"{context.method} is served, but the server did not declare {SKILLS.identifier}"
        return [self.finding(context, text, pointer="/result", related=(declaration.seq, request.seq))]


class NoResources(Rule):
    """A server declares Skills, but not the capability `resources`.

    **Why it matters.** The files of a skill are read as resources. Hosts that see no `resources` do not try, and then
    the skills cannot be loaded.

    **On the wire.** `< …"capabilities":{"extensions":{"io.modelcontextprotocol/skills":{}}}`

    **Instead.** `"capabilities":{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`
    """

    id = "ext-skills/no-resources"
    who = "server"
    extension = SKILLS
    sender = "server"
    era = "modern"
    methods = frozenset({_DISCOVER})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        capabilities = member(context.body.get("result"), "capabilities")
        if declares(capabilities, SKILLS) is not True or not lacks(capabilities, "resources"):
            return ()
        text = "the server declares Skills, but not the capability resources"
        return [self.finding(context, text, pointer="/result/capabilities")]


class InvalidSetting(Rule):
    """The setting `directoryRead` is neither true nor false.

    **Why it matters.** Hosts that compare it with `true` never read a directory of this server.

    **On the wire.** `< …"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":"yes"}}`

    **Instead.** `"directoryRead":true`, or leave it out.
    """

    id = "ext-skills/invalid-setting"
    who = "server"
    extension = SKILLS
    impact = Impact.WRONG
    sender = "server"
    era = "modern"
    methods = frozenset({_DISCOVER})

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        settings = member(member(context.body.get("result"), "capabilities"), "extensions")
        value = member(settings, SKILLS.identifier)
        if not isinstance(value, dict) or isinstance(value.get("directoryRead", False), bool):
            return ()
        pointer = f"/result/capabilities/extensions/{SKILLS.identifier.replace('/', '~1')}/directoryRead"
        return [self.finding(context, "directoryRead is neither true nor false", pointer=pointer)]


class DeclaredNotServed(Rule):
    """A server declares skills, but does not implement one of their methods.

    **Why it matters.** Hosts rely on the declaration: their users see a server with skills that cannot be loaded.

    **On the wire.** `< …"extensions":{"io.modelcontextprotocol/skills":{}}` …
    `> {"id":3,"method":"skills/get",…}` `< {"id":3,"error":{"code":-32601,…}}`

    **Instead.** Implement `skills/list`, which may return an empty list, and `skills/get`; with `"directoryRead":true`,
    also `resources/directory/read`.
    """

    id = "ext-skills/declared-not-served"
    who = "server"
    extension = SKILLS
    needs_session = True
    sender = "server"
    era = "modern"

    def on_error(self, context: MessageContext) -> Iterable[Finding]:
        declaration, request = _declaration_of(context), context.request
        if declaration is None or request is None or code_of(context.message) != METHOD_NOT_FOUND:
            return ()
        setting = EXTENSION_METHODS[request.method][1].setting
        capabilities = declaration.capabilities
        is_declared = has_setting(capabilities, SKILLS, setting) if setting else declares(capabilities, SKILLS)
        if is_declared is not True:
            return ()
        text = f"{request.method} is refused with {METHOD_NOT_FOUND}, although {setting or 'skills'} was declared"
        return [self.finding(context, text, pointer="/error/code", related=(declaration.seq, request.seq))]


class ReservedMethod(Rule):
    """A request or notification has a method `skills/…` that the extension does not define.

    **Why it matters.** The prefix is reserved for the extension, which may give the name another meaning later.

    **On the wire.** `> {"id":3,"method":"skills/read",…}`

    **Instead.** Only `skills/list` and `skills/get` exist. Files are read with `resources/read`. Begin the names of
    your own methods with another word.
    """

    id = "ext-skills/reserved-method"
    extension = SKILLS
    level = WARNING
    methods = None
    era = "modern"
    replaces = ("method/unknown-request", "method/unknown-notification")

    def concerns(self, hook: str, method: str, like: MessageContext) -> bool:  # noqa: ARG002 - the name decides
        return method.startswith("skills/") and method not in ENTRY_METHODS

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        text = f"{shortened(context.method)} is not a method of Skills, which reserves the prefix"
        return [self.finding(context, text, pointer="/method")]

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self.on_request(context)


# ---- shared by the rules


def _declaration_of(context: MessageContext) -> DeclaredCapabilities | None:
    """Returns the capabilities that the server has declared in the modern era, or None if they are not known."""
    return context.session.declared.get("modern")
