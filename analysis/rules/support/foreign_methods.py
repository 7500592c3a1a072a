"""Methods that the core cannot judge: those of unknown extensions and of drafts.

An extension may define its own results, error codes and directions. So what would be a fault in the core is at most a
note about its messages, for the rules that are about the meaning of a message (`Rule.yields_to_extensions`).
"""

from analysis.conversation.call import MessageContext
from analysis.conversation.declared_extensions import unknown_declarations
from analysis.protocol.extensions import KNOWN_METHODS, extension_of_method, is_foreign
from analysis.protocol.methods import METHOD_GROUPS


def may_belong_to_extension(context: MessageContext) -> bool:
    """Whether a message has, or answers, a method that a draft defines or an unknown extension may define."""
    method = context.method
    if method in KNOWN_METHODS:
        extension = extension_of_method(method, context.rank)
        return extension is not None and extension.status == "draft"
    return bool(method) and (is_foreign(method) or has_unknown_extension(context))


def has_possible_owner(context: MessageContext) -> bool:
    """Whether one side has declared an unknown extension that may define the message's method, which is not known.

    No extension defines methods that begin as those of the core do, such as `tools/`; a mistake is more likely.
    """
    group, slash, _ = context.method.removeprefix("notifications/").partition("/")
    return not (slash and group in METHOD_GROUPS) and has_unknown_extension(context)


def has_unknown_extension(context: MessageContext) -> bool:
    """Whether one side is known to have declared an unknown extension, when a message was sent."""
    return bool(unknown_declarations(context.session, context.request))
