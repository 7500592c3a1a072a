"""Kinds of changes of definitions: tools, prompts and resources that come, go, are renamed, reworded or annotated."""

from typing import Final

from analysis.comparison.kind import Kind, Severity

TOOL_REMOVED: Final = Kind(
    "tool/removed",
    Severity.BREAKING,
    "a tool was removed",
    "Calls of the tool fail from now on, and a model that was told of it in a prompt still tries.",
    "tools/list: search, fetch → fetch",
)
TOOL_RENAMED: Final = Kind(
    "tool/renamed",
    Severity.BREAKING,
    "a tool has another name",
    "Calls with the old name fail. Approvals, allow lists and pinned hashes that contain the name do not cover the "
    "new one. The schemas are the same and the description is nearly the same, and no other tool fits as well.",
    "tools/list: search_docs → docs_search, with the same schemas",
)
TOOL_ADDED: Final = Kind(
    "tool/added",
    Severity.NOTE,
    "a tool was added",
    "Nothing that worked before is affected, but a model reads one more definition, and may prefer the new tool.",
    "tools/list: fetch → fetch, search",
)
ANNOTATION_WEAKENED: Final = Kind(
    "tool/annotation-weakened",
    Severity.MAY_BREAK,
    "a tool no longer says that it is harmless",
    "Clients use annotations to decide whether to ask the user before a call. The tool no longer claims to be "
    "read-only, not destructive, idempotent or limited to a closed world. An absent hint has the default of the "
    "specification.",
    '{"readOnlyHint": true} → {}',
)
ANNOTATION_STRENGTHENED: Final = Kind(
    "tool/annotation-strengthened",
    Severity.NOTE,
    "a tool now says that it is harmless",
    "Clients may stop asking the user before a call, on the word of the server alone.",
    '{} → {"readOnlyHint": true}',
)
TASK_REQUIRED: Final = Kind(
    "tool/task-required",
    Severity.BREAKING,
    "a tool can be called only as a task now",
    "Plain calls, which were valid before, are refused from now on.",
    '"execution": {} → {"taskSupport": "required"}',
)
TASK_REFUSED: Final = Kind(
    "tool/task-refused",
    Severity.MAY_BREAK,
    "a tool can no longer be called as a task",
    "Clients that call it as a task get an error. Clients that call it plainly notice nothing.",
    '"execution": {"taskSupport": "optional"} → {}',
)
TASK_ALLOWED: Final = Kind(
    "tool/task-allowed",
    Severity.NOTE,
    "a tool can be called with or without a task now",
    "What was valid before is still valid.",
    '"execution": {} → {"taskSupport": "optional"}',
)
PROMPT_REMOVED: Final = Kind(
    "prompt/removed",
    Severity.BREAKING,
    "a prompt was removed",
    "Requests for the prompt fail from now on; users miss a command that they may have used.",
    "prompts/list: review, explain → explain",
)
PROMPT_RENAMED: Final = Kind(
    "prompt/renamed",
    Severity.BREAKING,
    "a prompt has another name",
    "Requests with the old name fail. The arguments are the same and the description is nearly the same.",
    "prompts/list: review → code_review, with the same arguments",
)
PROMPT_ADDED: Final = Kind(
    "prompt/added",
    Severity.NOTE,
    "a prompt was added",
    "Nothing that worked before is affected.",
    "prompts/list: explain → explain, review",
)
PROMPT_ARGUMENT_REQUIRED: Final = Kind(
    "prompt/argument-required",
    Severity.BREAKING,
    "an argument of a prompt is required now",
    "Requests without the argument, which were valid before, are refused from now on.",
    '{"name": "code"} → {"name": "code", "required": true}',
)
PROMPT_ARGUMENT_OPTIONAL: Final = Kind(
    "prompt/argument-optional",
    Severity.NOTE,
    "an argument of a prompt is no longer required",
    "What was valid before is still valid.",
    '{"name": "code", "required": true} → {"name": "code"}',
)
PROMPT_ARGUMENT_REMOVED: Final = Kind(
    "prompt/argument-removed",
    Severity.MAY_BREAK,
    "an argument of a prompt was removed",
    "A server may refuse an argument that it does not list, or ignore it; the prompt then lacks what the user gave.",
    'arguments: "code", "style" → "code"',
)
PROMPT_ARGUMENT_ADDED: Final = Kind(
    "prompt/argument-added",
    Severity.NOTE,
    "a prompt has a new argument that is optional",
    "What was valid before is still valid.",
    'arguments: "code" → "code", "style"',
)
RESOURCE_REMOVED: Final = Kind(
    "resource/removed",
    Severity.MAY_BREAK,
    "a resource is no longer listed",
    "A client that reads the URI may get an error. Lists of resources often follow the content of a server, such as "
    "its files, and a resource that is not listed may still be readable, so this alone proves nothing.",
    "resources/list: file:///a, file:///b → file:///b",
)
RESOURCE_MOVED: Final = Kind(
    "resource/moved",
    Severity.MAY_BREAK,
    "a resource has another URI",
    "A client that kept the old URI may get an error. Name, type and description are the same.",
    "resources/list: docs://guide → docs://v2/guide",
)
RESOURCE_ADDED: Final = Kind(
    "resource/added",
    Severity.NOTE,
    "a resource was added",
    "Nothing that worked before is affected.",
    "resources/list: file:///b → file:///a, file:///b",
)
RESOURCE_NAME: Final = Kind(
    "resource/name-changed",
    Severity.NOTE,
    "a resource or template has another name, and the same URI",
    "Clients show the name to users; requests contain the URI.",
    '{"uri": "docs://guide", "name": "guide"} → {"uri": "docs://guide", "name": "manual"}',
)
MIME_TYPE: Final = Kind(
    "resource/mime-type-changed",
    Severity.MAY_BREAK,
    "a resource or template has another MIME type",
    "Clients use the type to choose how to show the content, and whether to give it to a model at all.",
    '"mimeType": "text/plain" → "text/html"',
)
RESOURCE_SIZE: Final = Kind(
    "resource/size-changed",
    Severity.NOTE,
    "the size that the list gives for a resource changed",
    "Hosts use it to estimate how much of a model's context the resource takes.",
    '"size": 1024 → 4096',
)
TEMPLATE_REMOVED: Final = Kind(
    "resource-template/removed",
    Severity.BREAKING,
    "a resource template was removed",
    "A client can no longer form the URIs that the template describes, and reading them may fail.",
    "resources/templates/list: file:///{path} → none",
)
TEMPLATE_CHANGED: Final = Kind(
    "resource-template/changed",
    Severity.MAY_BREAK,
    "a resource template forms other URIs",
    "URIs that a client formed or kept may no longer exist. Requests for completions name the template and its "
    "variables, so they fail with the old ones.",
    '"uriTemplate": "file:///{path}" → "file:///{root}/{path}"',
)
TEMPLATE_ADDED: Final = Kind(
    "resource-template/added",
    Severity.NOTE,
    "a resource template was added",
    "Nothing that worked before is affected.",
    "resources/templates/list: none → file:///{path}",
)
HIDDEN_TEXT: Final = Kind(
    "definition/hidden-text",
    Severity.WORSE,
    "text contains new characters that people do not see",
    "A model reads characters that reverse, join or encode text invisibly: direction controls, zero-width and tag "
    "characters, runs of variation selectors, terminal controls. Hidden instructions are a known attack. "
    "Joiners within an emoji, a flag or a word of a script that needs them do not count.",
    '"description": "Adds numbers" → "Adds numbers\\u200b\\u202e"',
    "finding",
)
DESCRIPTION: Final = Kind(
    "definition/description-changed",
    Severity.NOTE,
    "a description was reworded",
    "A model reads it, and may use the definition in another way. The words alone prove neither a fault nor an attack.",
    '"description": "Adds numbers" → "Adds two numbers"',
)
TITLE: Final = Kind(
    "definition/title-changed",
    Severity.NOTE,
    "a title changed",
    "Clients show it to users; nothing depends on it.",
    '"title": "Search" → "Search documents"',
)
ICONS: Final = Kind(
    "definition/icons-changed",
    Severity.NOTE,
    "icons changed",
    "Clients may show other pictures, and load them from other addresses.",
    '"icons": [{"src": "https://a.example/1.png"}] → [{"src": "https://b.example/1.png"}]',
)
META: Final = Kind(
    "definition/meta-changed",
    Severity.NOTE,
    "a member of `_meta` changed",
    "What it means is between the server and the clients that know it, such as the page of an app.",
    '"_meta": {"ui": {"resourceUri": "ui://a"}} → {"ui": {"resourceUri": "ui://b"}}',
)
MEMBER: Final = Kind(
    "definition/member-changed",
    Severity.NOTE,
    "another member of a definition changed",
    "Annotations for display, or a member that the specification does not define. Clients may use it.",
    '"annotations": {"priority": 0.5} → {"priority": 1}',
)

KINDS: Final = (
    TOOL_REMOVED,
    TOOL_RENAMED,
    TOOL_ADDED,
    ANNOTATION_WEAKENED,
    ANNOTATION_STRENGTHENED,
    TASK_REQUIRED,
    TASK_REFUSED,
    TASK_ALLOWED,
    PROMPT_REMOVED,
    PROMPT_RENAMED,
    PROMPT_ADDED,
    PROMPT_ARGUMENT_REQUIRED,
    PROMPT_ARGUMENT_OPTIONAL,
    PROMPT_ARGUMENT_REMOVED,
    PROMPT_ARGUMENT_ADDED,
    RESOURCE_REMOVED,
    RESOURCE_MOVED,
    RESOURCE_ADDED,
    RESOURCE_NAME,
    MIME_TYPE,
    RESOURCE_SIZE,
    TEMPLATE_REMOVED,
    TEMPLATE_CHANGED,
    TEMPLATE_ADDED,
    HIDDEN_TEXT,
    DESCRIPTION,
    TITLE,
    ICONS,
    META,
    MEMBER,
)
