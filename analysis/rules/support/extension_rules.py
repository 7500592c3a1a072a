"""Base classes of the rules that several extensions have: shapes of bodies, types of results, and declarations.

    class Shape(ExtensionShape):
        (docstring: the page)

        id = "ext-skills/shape"
        extension = SKILLS

The attributes `versions`, `source` and `methods` follow from the extension; a subclass may set its own. All findings
about a draft are notes, because it can still change (`Rule.extension`).
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Response
from analysis.protocol.extensions import EXTENSION_METHODS, Extension, declares, has_setting
from analysis.protocol.revisions import ALL, REVISIONS, before
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.capability.server_capabilities import knows_declaration
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member, shortened
from analysis.shapes.extension_bodies import extension_problems


class ExtensionShape(Rule):
    """Reports bodies that do not have the shape in the extension's table (`analysis/shapes/extension_table.py`)."""

    extension: ClassVar[Extension]

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_shape(context)

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_shape(context)

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_shape(context)

    def _check_shape(self, context: MessageContext) -> Iterable[Finding]:
        problems = extension_problems(self.extension, context)
        if not problems:
            return ()
        subject = f"the result of {context.method}" if isinstance(context.message, Response) else context.method
        return self.capped(
            self.finding(context, f"{subject}: {problem.text}", pointer=problem.pointer) for problem in problems
        )


class OtherResultType(Rule):
    """Reports results of the rule's methods whose `resultType` is not `complete`, the only type that they have."""

    who = "server"
    sender = "server"
    era = "modern"
    replaces = ("modern/unknown-result-type", "mrtr/unsupported-method", "cache/hints-on-interim")

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        result_type = member(context.body["result"], "resultType")
        if not isinstance(result_type, str) or result_type == "complete":
            return ()
        text = f"resultType of {context.method} is {shortened(result_type)!r}, not 'complete'"
        return [self.finding(context, text, pointer="/result/resultType")]


class UndeclaredExtension(Rule):
    """Reports methods of an extension that the server did not declare, or in a revision that cannot have it.

    The latter is only a note: nothing forbids the two sides to agree on it.
    """

    extension: ClassVar[Extension]
    level = WARNING
    needs_session = True

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Let the rule apply to all revisions, because it is also about revisions that cannot have the extension."""
        super().__init_subclass__(**arguments)
        revisions = cls.extension.revisions
        if cls.level > NOTE and revisions.first > 0:
            cls.levels = {before(revisions): NOTE}
        cls.versions = ALL

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_declaration(context) if context.message.sender == "client" else ()

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        return self._check_declaration(context) if context.message.sender == "server" else ()

    def _check_declaration(self, context: MessageContext) -> Iterable[Finding]:
        extension, method, rank = self.extension, context.method, context.rank
        first, last = extension.revisions
        if context.era == "handshake" and context.state != "ready":
            return ()
        if rank is not None and not first <= rank <= last:
            text = f"{method} belongs to {extension.title}, which {REVISIONS[rank]} does not have"
            return [self.finding(context, text, pointer="/method", level=NOTE)]
        declaration = context.session.declared.get(context.era)
        if declaration is None or "server" not in extension.declared_by:
            return ()
        is_sent_by_server = context.message.sender == "server"
        if not is_sent_by_server and not knows_declaration(context, declaration):
            return ()
        setting = EXTENSION_METHODS[method][1].setting
        if declares(declaration.capabilities, extension) is False:
            missing = extension.identifier
        elif setting and has_setting(declaration.capabilities, extension, setting) is False:
            missing = setting
        else:
            return ()
        text = f"{method} is {'sent' if is_sent_by_server else 'requested'}, but the server did not declare {missing}"
        return [self.finding(context, text, pointer="/method", related=(declaration.seq,))]
