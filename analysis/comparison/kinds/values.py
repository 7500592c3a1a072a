"""Kinds of changes of results: values that the normaliser does not ignore."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

TYPE_CHANGED: Final = Kind(
    "value/type-changed",
    Severity.MAY_BREAK,
    "a value in a result has another JSON type",
    "Code that reads the value expects the old type: a number that becomes a string, or a null where there was a "
    "value, fails in most languages. This includes ids and times, whose values are otherwise ignored.",
    '/structuredContent/id: 17 → "17"',
    "value",
)
MEMBER_LOST: Final = Kind(
    "value/member-lost",
    Severity.MAY_BREAK,
    "a member of a result is gone",
    "Whoever reads the member finds nothing. It may be one that is not always there: another recording of the old side "
    "shows whether it is.",
    '/structuredContent/total: 3 → absent; /_meta/version: "2" → absent',
    "value",
)
STRUCTURED_CONTENT_LOST: Final = Kind(
    "value/structured-lost",
    Severity.MAY_BREAK,
    "a tool result no longer has `structuredContent`",
    "Clients that read the structured result instead of the text get nothing. If the tool declares an output schema, "
    "the result violates it.",
    '{"content": […], "structuredContent": {…}} → {"content": […]}',
    "value",
)
BLOCK_KIND_CHANGED: Final = Kind(
    "value/block-kind-changed",
    Severity.MAY_BREAK,
    "a content block has another `type`",
    "A model or host that expects a text gets an image, for example, or the reverse, and may not be able to use it.",
    '/content/*: {"type": "text", …} → {"type": "image", …}',
    "value",
)
CURSOR_REPEATS: Final = Kind(
    "value/cursor-repeats",
    Severity.WORSE,
    "a page has the cursor with which it was requested",
    "A client that follows the cursor gets the same page again and never reaches the end. The old side had no "
    "such page.",
    'tools/list {"cursor": "p2"} → {"tools": […], "nextCursor": "p2"}',
    "value",
)
LIST_SHORTER: Final = Kind(
    "value/list-shorter",
    Severity.NOTE,
    "a list in a result has fewer elements",
    "The same request found less. Whether that matters depends on what the list contains.",
    "/structuredContent/items: 5 elements → 3 elements",
    "value",
)
LIST_LONGER: Final = Kind(
    "value/list-longer",
    Severity.NOTE,
    "a list in a result has more elements",
    "The same request found more. A model reads all of it, so the result also costs more.",
    "/structuredContent/items: 3 elements → 5 elements",
    "value",
)
LIST_REORDERED: Final = Kind(
    "value/list-reordered",
    Severity.NOTE,
    "a list in a result has the same elements in another order",
    "Order matters if the list is a ranking, or if its reader takes the first element.",
    '/structuredContent/names: ["a", "b"] → ["b", "a"]',
    "value",
)
TEXT_CHANGED: Final = Kind(
    "value/text-changed",
    Severity.NOTE,
    "the text of a content block changed",
    "A model reads other words. Ids, times, durations and paths in the text do not count.",
    '/content/*/text: "3 files" → "4 files"',
    "value",
)
VALUE_CHANGED: Final = Kind(
    "value/changed",
    Severity.NOTE,
    "a value in a result changed",
    "The same request got another value. Whether that matters depends on what the value means.",
    "/structuredContent/count: 3 → 4",
    "value",
)
MEMBER_ADDED: Final = Kind(
    "value/member-added",
    Severity.NOTE,
    "a result has a new member",
    "Readers that ignore members they do not know are not affected. A model reads it if it is in a text.",
    "/structuredContent/total: absent → 3",
    "value",
)

KINDS: Final = (
    TYPE_CHANGED,
    MEMBER_LOST,
    STRUCTURED_CONTENT_LOST,
    BLOCK_KIND_CHANGED,
    CURSOR_REPEATS,
    LIST_SHORTER,
    LIST_LONGER,
    LIST_REORDERED,
    TEXT_CHANGED,
    VALUE_CHANGED,
    MEMBER_ADDED,
)
