"""JSON that parsers may read in different ways."""

from collections.abc import Iterator
from typing import Final

from analysis.conversation.call import MessageContext
from analysis.facts import raw_of
from analysis.rules.base import WARNING
from analysis.rules.finding import Finding, Impact
from analysis.rules.odd import MessageOddity
from analysis.rules.support.message_text import AnyFrameRule, hidden_values, is_value, reason, shortened_name
from captures.exact_judge import nesting_depth
from captures.limits import MAX_DEPTH

_DECISIVE_POINTERS: Final = frozenset({"/id", "/method", "/result", "/error"})


class TooDeep(AnyFrameRule):
    """A message nests more than 200 levels of arrays and objects.

    **Why it matters.** Parsers fail at different depths, and some crash the whole process: one side can write messages
    that the other cannot read.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":[[[[…]]]]}}}`

    **Instead.** Flatten the data, or send references to it.
    """

    id = "framing/too-deep"
    oddities = MessageOddity.ENVELOPE
    level = WARNING
    impact = Impact.CONNECTION
    source = "observed in parsers; no limit in the specification"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        message = context.message
        if reason(message) == self.id or (is_value(message) and nesting_depth(raw_of(message.frames)) > MAX_DEPTH):
            yield self.frame_finding(context, f"the message nests more than {MAX_DEPTH} levels")


class DuplicateKey(AnyFrameRule):
    """An object has the same member twice.

    **Why it matters.** Most parsers keep the last value, some keep the first, and some refuse the text: sender,
    receiver and any checker in between see different messages.

    **On the wire.** `> {"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`

    **Instead.** Write each name once; build JSON with a serialiser, not by joining text.
    """

    id = "framing/duplicate-key"
    needs_bytes = True
    oddities = MessageOddity.HIDING
    level = WARNING
    impact = Impact.WRONG
    source = "RFC 8259 §4"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        repeated_member = hidden_values(context.message).repeated
        if repeated_member is None:
            return
        text = f"the member {shortened_name(repeated_member.name)} occurs twice in one object"
        if repeated_member.pointer in _DECISIVE_POINTERS:
            text += ": peers may disagree about which message this is"
        yield self.finding(context, text, pointer=repeated_member.pointer)._replace(item=repeated_member.item)


class NonJsonNumber(AnyFrameRule):
    """A value is NaN or an infinity.

    **Why it matters.** JSON has no such numbers. Python writes and reads them by default; nearly all other parsers
    refuse the whole message.

    **On the wire.** `< {"jsonrpc":"2.0","id":3,"result":{"content":[],"structuredContent":{"mean":NaN}}}`

    **Instead.** Send null, or leave the member out; in Python serialise with `allow_nan=False`.
    """

    id = "framing/non-json-number"
    needs_bytes = True
    oddities = MessageOddity.HIDING
    source = "RFC 8259 §6"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        constant = hidden_values(context.message).constant
        if constant is not None:
            text = "NaN and infinities are not JSON values"
            yield self.frame_finding(context, text, pointer=constant.pointer, item=constant.item)


class LoneSurrogate(AnyFrameRule):
    r"""A string contains half of a surrogate pair.

    **Why it matters.** UTF-8 cannot represent the text. Programs that have to write it fail, or replace the lone half.

    **On the wire.** `< {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"\ud83d"}]}}`

    **Instead.** Cut text between characters, not between UTF-16 code units.
    """

    id = "framing/lone-surrogate"
    needs_bytes = True
    oddities = MessageOddity.HIDING
    level = WARNING
    source = "RFC 8259 §8.2"

    def check_frame(self, context: MessageContext) -> Iterator[Finding]:
        half_pair = hidden_values(context.message).half_pair
        if half_pair is not None:
            text = "a string holds half of a surrogate pair, which UTF-8 cannot represent"
            yield self.frame_finding(context, text, pointer=half_pair.pointer, item=half_pair.item)
