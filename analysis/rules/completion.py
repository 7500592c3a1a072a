"""The group `completion`: suggestions for the arguments of prompts and templates."""

from collections.abc import Iterable, Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import params_of
from analysis.rules.finding import Finding
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listings import prompts_of, resources_of, templates_of
from analysis.rules.support.uri_templates import template_variables

_LISTS: Final = {"prompts/list": prompts_of, "resources/list": resources_of, "resources/templates/list": templates_of}


class Counts(Rule):
    """The numbers in a completion do not match its values.

    **Why it matters.** A client shows "3 of 2", or does not request the rest.

    **On the wire.** `< {"id":7,"result":{"completion":{"values":["a","b"],"total":1}}}`

    **Instead.** `total` is the number of all values; `hasMore` is true if that is more than the result contains.
    """

    id = "completion/counts"
    who = "server"
    level = WARNING
    methods = frozenset({"completion/complete"})
    source = "2024-11-05 server/utilities/completion"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        completion = member(context.body["result"], "completion")
        values, total = member(completion, "values"), member(completion, "total")
        if not isinstance(values, list) or isinstance(total, bool) or not isinstance(total, int | float):
            return ()
        if total < len(values):
            text = "total is less than the number of values"
        elif total > len(values) and member(completion, "hasMore") is False:
            text = "hasMore is false, but total is more than the number of values"
        else:
            return ()
        return [self.finding(context, text, pointer="/result/completion/total")]


class UnknownReference(Rule):
    """A completion is requested for something that is not listed, or for an argument that it does not have.

    **Why it matters.** The server has nothing to suggest. The client is probably using an outdated list.

    **On the wire.** `> {"id":7,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"gone"},…}}`

    **Instead.** Send the name of a listed prompt, or the `uriTemplate` of a listed template, and one of its arguments.
    """

    id = "completion/unknown-reference"
    needs_session = True
    who = "client"
    level = NOTE
    needs_lists = True
    methods = frozenset(
        {
            *("completion/complete", *_LISTS),
            *("notifications/prompts/list_changed", "notifications/resources/list_changed"),
        }
    )
    source = "2024-11-05 server/utilities/completion"

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender == "server":
            changed_lists = (prompts_of,) if "prompts" in context.method else (resources_of, templates_of)
            for list_of in changed_lists:
                list_of(context.session).on_list_changed(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        list_of = _LISTS.get(context.method)
        if list_of is not None:
            list_of(context.session).record_page(context)
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        return (
            self._check_reference(context, request)
            if request is not None and request.method == "completion/complete"
            else ()
        )

    def _check_reference(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        reference, argument = params_of(request).get("ref"), member(params_of(request).get("argument"), "name")
        kind, name, uri = member(reference, "type"), member(reference, "name"), member(reference, "uri")
        arguments: set[str] | None = None
        if kind == "ref/prompt" and isinstance(name, str):
            if prompts_of(context.session).lacks(name, request, context.session):
                yield self.finding(context, f"no prompt {shortened(name)!r} is listed", pointer="/params/ref/name")
                return
            prompt = prompts_of(context.session).entry(name, request, context.session)
            listed_arguments = prompt.item.get("arguments", []) if prompt is not None else None
            if isinstance(listed_arguments, list):
                arguments = {
                    argument_name
                    for argument_name in (member(argument_item, "name") for argument_item in listed_arguments)
                    if isinstance(argument_name, str)
                }
        elif kind == "ref/resource" and isinstance(uri, str):
            if all(
                list_of(context.session).lacks(uri, request, context.session)
                for list_of in (resources_of, templates_of)
            ):
                text = "the reference is neither a listed resource nor a template"
                yield self.finding(context, text, pointer="/params/ref/uri")
                return
            if templates_of(context.session).entry(uri, request, context.session) is not None:
                arguments = template_variables(uri)
        if arguments is not None and isinstance(argument, str) and argument not in arguments:
            text = f"the reference has no argument {shortened(argument)!r}"
            yield self.finding(context, text, pointer="/params/argument/name")
