"""The group `prompt`: lists of prompts, requests for prompts, and their results."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from analysis.conversation.annotated_objects import annotated_objects
from analysis.conversation.call import MessageContext
from analysis.conversation.message import Request
from analysis.protocol.json_pointer import encode_step
from analysis.rules.base import NOTE, WARNING, Rule
from analysis.rules.error.codes import params_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member, shortened
from analysis.rules.support.listings import prompts_of
from analysis.rules.support.prompts import MAX_PROMPT_ARGUMENTS, arguments_of, missing_arguments, prompt_of

_CHANGED: Final = "notifications/prompts/list_changed"
_MAX_PROMPT_FINDINGS: Final = 10


class _PromptRule(Rule):
    """A rule that needs the listed prompts."""

    methods = frozenset({"prompts/list", "prompts/get", _CHANGED})

    def on_notification(self, context: MessageContext) -> Iterable[Finding]:
        if context.message.sender == "server":
            prompts_of(context.session).on_list_changed(context)
        return ()

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        if context.method == "prompts/list":
            prompts_of(context.session).record_page(context)
        return ()

    def on_request(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.method != "prompts/get":
            return ()
        return self.capped(self.check_request(context, request), _MAX_PROMPT_FINDINGS)

    def check_request(self, context: MessageContext, request: Request) -> Iterable[Finding]:  # noqa: ARG002 - for rules that override it
        """Returns the findings about a request for a prompt."""
        return ()


class DuplicateName(_PromptRule):
    """Two prompts of one list have the same name, or two arguments of one prompt do.

    **Why it matters.** Clients request prompts by name, so they can never get one of the two.

    **On the wire.** `< {"id":2,"result":{"prompts":[{"name":"review"},{"name":"review"}]}}`

    **Instead.** Rename one of them; use `title` for the text that people see.
    """

    id = "prompt/duplicate-name"
    follows = ("page/loop",)
    who = "server"
    level = WARNING
    replaces = ("page/duplicate-item",)
    methods = frozenset({"prompts/list", _CHANGED})
    source = "2024-11-05 server/prompts"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        page = prompts_of(context.session).record_page(context)
        return self.capped(self._findings(context, page.items, page.repeats), _MAX_PROMPT_FINDINGS)

    def _findings(self, context: MessageContext, items: list[Any], repeats: list[tuple[int, int]]) -> Iterator[Finding]:
        for index, seq in repeats:
            text = f"the prompt {shortened(str(items[index].get('name')))!r} is listed twice"
            yield self.finding(context, text, pointer=f"/result/prompts/{index}/name", related=(seq,))
        for index, item in enumerate(items):
            seen = set[str]()
            for position, name in arguments_of(item):
                if name in seen:
                    text = f"a prompt has the argument {shortened(name)!r} twice"
                    yield self.finding(context, text, pointer=f"/result/prompts/{index}/arguments/{position}/name")
                seen.add(name)


class Unlisted(_PromptRule):
    """A client requests a prompt that is not in the list.

    **Why it matters.** The prompt was removed or never existed: the client uses an outdated list or a name from its
    settings.

    **On the wire.** `< …"prompts":[{"name":"review"}]` … `> {"id":3,"method":"prompts/get","params":{"name":"reveiw"}}`

    **Instead.** Request only listed prompts, and fetch the list again when the server announces a change.
    """

    id = "prompt/unlisted"
    needs_session = True
    who = "client"
    level = WARNING
    impact = Impact.COST
    needs_lists = True
    source = "2024-11-05 server/prompts"

    def check_request(self, context: MessageContext, request: Request) -> Iterable[Finding]:
        name = params_of(request).get("name")
        if not isinstance(name, str) or not prompts_of(context.session).lacks(name, request, context.session):
            return ()
        return [self.finding(context, f"no prompt {shortened(name)!r} is listed", pointer="/params/name")]


class MissingArgument(_PromptRule):
    """A prompt is requested without an argument that it requires.

    **Why it matters.** The server refuses the request, or leaves a gap in the text for the model.

    **On the wire.** `< …"arguments":[{"name":"code","required":true}]` …
    `> {"id":3,"method":"prompts/get","params":{"name":"review"}}`

    **Instead.** Ask the user for the argument first.
    """

    id = "prompt/missing-argument"
    who = "client"
    level = WARNING
    needs_lists = True
    source = "2024-11-05 server/prompts"

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        for name in missing_arguments(context, request):
            yield self.finding(context, f"the argument {shortened(name)!r} is required, but missing", pointer="/params")


class MissingArgumentAccepted(_PromptRule):
    """The server returns a prompt although a required argument is missing.

    **Why it matters.** Either the argument is not really required, or the prompt has a gap that remains unnoticed.

    **On the wire.** The request of `prompt/missing-argument`, answered with `< {"id":3,"result":{"messages":[…]}}`

    **Instead.** Refuse the request with -32602, or list the argument as optional.
    """

    id = "prompt/missing-argument-accepted"
    who = "server"
    level = NOTE
    impact = Impact.WRONG
    source = "2024-11-05 server/prompts"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        request = context.request
        if request is None or request.method == "prompts/list":
            return super().on_result(context)
        if member(context.body["result"], "resultType") == "input_required" or not missing_arguments(context, request):
            return ()
        text = "the server returns the prompt although a required argument is missing"
        return [self.finding(context, text, pointer="/result", related=(request.seq,))]


class UnknownArgument(_PromptRule):
    """A prompt is requested with an argument that it does not list.

    **Why it matters.** The server ignores the argument, and the user who supplied it does not notice.

    **On the wire.** `> {"id":3,"method":"prompts/get","params":{"name":"review","arguments":{"lang":"en"}}}`

    **Instead.** Send only listed arguments.
    """

    id = "prompt/unknown-argument"
    who = "client"
    level = NOTE
    impact = Impact.WRONG
    needs_lists = True
    source = "2024-11-05 server/prompts"

    def check_request(self, context: MessageContext, request: Request) -> Iterator[Finding]:
        prompt, arguments = prompt_of(context, request), params_of(request).get("arguments")
        if prompt is None or not isinstance(arguments, dict) or not isinstance(prompt.item.get("arguments", []), list):
            return
        known_names = {name for _, name in arguments_of(prompt.item)}
        for name in islice(arguments, MAX_PROMPT_ARGUMENTS):
            if name not in known_names and len(known_names) < MAX_PROMPT_ARGUMENTS:
                escaped_name = encode_step(shortened(name))
                text = f"the prompt has no argument {shortened(name)!r}"
                yield self.finding(context, text, pointer=f"/params/arguments/{escaped_name}")


class IncompleteResource(Rule):
    """A resource in a prompt lacks its URI, its MIME type or its contents.

    **Why it matters.** Clients cannot show content of an unknown type. The specification requires these members in
    prompts, although the schema does not.

    **On the wire.** `< …"content":{"type":"resource","resource":{"uri":"file:///a","text":"a"}}`

    **Instead.** Send `uri`, `mimeType`, and `text` or `blob`.
    """

    id = "prompt/incomplete-resource"
    who = "server"
    impact = Impact.WRONG
    replaces = ("schema/*",)
    methods = frozenset({"prompts/get"})
    sender = "server"
    source = "2024-11-05 server/prompts"

    def on_result(self, context: MessageContext) -> Iterable[Finding]:
        return self.capped(self._findings(context), _MAX_PROMPT_FINDINGS)

    def _findings(self, context: MessageContext) -> Iterator[Finding]:
        for pointer, content in annotated_objects(context):
            resource = content.get("resource")
            if content.get("type") != "resource" or not isinstance(resource, dict):
                continue
            missing_members = [name for name in ("uri", "mimeType") if name not in resource]
            if "text" not in resource and "blob" not in resource:
                missing_members.append("text")
            for name in missing_members:
                gap = "neither text nor blob" if name == "text" else f"no {name}"
                yield self.finding(context, f"a resource in a prompt has {gap}", pointer=f"{pointer}/resource/{name}")
