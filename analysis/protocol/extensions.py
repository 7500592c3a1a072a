"""The extensions of MCP that are known, as data: a closed list, with one row for each.

A row names what an extension adds to the protocol: its methods, its error codes, its result types, and the members of
`_meta` that carry its ids. Anything that judges, names or groups messages of an extension takes these facts from here.
What an extension means beyond that is in the group of rules that is named after it (`analysis/rules/ext_*`), and the
shapes of its bodies are in `analysis/shapes/extensions`.

An extension that is not in the list is never a fault: its methods are shown and timed, but not judged. What revisions
and extensions define together, such as the sides that may send a method, is here as well.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol.error_codes import (
    CALLBACK_ENDPOINT_ERROR,
    FORBIDDEN,
    NOT_FOUND,
    RESOURCE_EXHAUSTED,
    SKETCH_CODES,
    UNSUPPORTED,
    ErrorCode,
)
from analysis.protocol.methods import ENDLESS_CORE_METHODS, METHOD_GROUPS, METHODS, REQUEST_METHODS
from analysis.protocol.revisions import ALL, MODERN_ERA, Span

Status: TypeAlias = Literal["final", "draft"]
"""Whether an extension can still change: findings about a draft are notes, never errors or warnings."""
ExtensionSender: TypeAlias = Literal["client", "server", "both"]


class ExtensionMethod(NamedTuple):
    """One method that an extension defines, or to which it gives another meaning than the core does."""

    name: str
    sender: ExtensionSender = "client"
    setting: str = ""
    """The setting of the extension that the server must have declared as true; empty for none."""
    name_member: str = ""
    """The member of the params that says what the request is about; empty for none."""
    has_name_header: bool = False
    """Whether the header `Mcp-Name` repeats that member."""
    filter_member: str = ""
    """The member of the filter of `subscriptions/listen` that selects the notification; empty for none."""
    is_endless: bool = False
    """Whether the request normally gets no response, and ends with a cancellation."""

    @property
    def is_request(self) -> bool:
        """Whether it expects a response."""
        return "notifications" not in self.name.split("/")


class Extension(NamedTuple):
    """One extension."""

    identifier: str
    """Its name in `capabilities.extensions`."""
    title: str
    """Its name in sentences."""
    group: str
    """The group of its rules."""
    status: Status
    versions: tuple[str, ...]
    """Its own versions, oldest first; empty if it has none."""
    revisions: Span
    """The revisions of MCP with which it can be used."""
    source: str
    """The document that defines it, as pages of rules name it."""
    methods: tuple[ExtensionMethod, ...] = ()
    sketch_capability: str = ""
    """The capability outside `extensions` that declared it in a sketch before its proposal; empty for none."""
    declared_by: frozenset[str] = frozenset({"client", "server"})
    """The sides that declare it."""
    meta_members: tuple[str, ...] = ()
    """Members of `_meta` that it defines; a name that ends with `/` stands for all names with that prefix."""
    result_types: tuple[str, ...] = ()
    """Values of `resultType` that it defines."""
    error_codes: tuple[ErrorCode, ...] = ()
    """Codes to which it gives a meaning."""

    @property
    def requests(self) -> frozenset[str]:
        """The methods of its requests."""
        return frozenset(method.name for method in self.methods if method.is_request)

    @property
    def notifications(self) -> frozenset[str]:
        """The methods of its notifications."""
        return frozenset(method.name for method in self.methods if not method.is_request)


_PREFIX: Final = "io.modelcontextprotocol/"

TASKS: Final = Extension(
    f"{_PREFIX}tasks",
    "Tasks",
    "ext-tasks",
    "final",
    (),
    MODERN_ERA,
    "SEP-2663",
    methods=(
        ExtensionMethod("tasks/get", name_member="taskId", has_name_header=True),
        ExtensionMethod("tasks/update", name_member="taskId", has_name_header=True),
        ExtensionMethod("tasks/cancel", name_member="taskId", has_name_header=True),
        ExtensionMethod("notifications/tasks", "server", filter_member="taskIds"),
    ),
    result_types=("task",),
)
SKILLS: Final = Extension(
    f"{_PREFIX}skills",
    "Skills",
    "ext-skills",
    "final",
    (),
    MODERN_ERA,
    "SEP-2640",
    methods=(
        ExtensionMethod("skills/list"),
        ExtensionMethod("skills/get", name_member="uri"),
        ExtensionMethod("resources/directory/read", setting="directoryRead", name_member="uri"),
    ),
    declared_by=frozenset({"server"}),
    meta_members=("io.modelcontextprotocol.skills/",),
)
_APP_MESSAGES: Final = (
    *("initialize", "message", "open-link", "request-display-mode", "resource-teardown", "update-model-context"),
    *("notifications/host-context-changed", "notifications/initialized", "notifications/sandbox-proxy-ready"),
    *("notifications/sandbox-resource-ready", "notifications/size-changed", "notifications/tool-cancelled"),
    *("notifications/tool-input", "notifications/tool-input-partial", "notifications/tool-result"),
)
"""Messages between an app and its host. They belong to neither side of a recording, so either may send them by mistake;
`ext-apps/app-message` reports that."""
APPS: Final = Extension(
    f"{_PREFIX}ui",
    "Apps",
    "ext-apps",
    "final",
    ("2026-01-26",),
    ALL,
    "SEP-1865",
    methods=tuple(ExtensionMethod(f"ui/{name}", "both") for name in _APP_MESSAGES),
    declared_by=frozenset({"client", "server"}),
    meta_members=("ui", "ui/resourceUri"),
)
_EVENT_ERRORS: Final = (
    ErrorCode(NOT_FOUND, "Not found", ALL, "the event or the subscription does not exist"),
    ErrorCode(FORBIDDEN, "Forbidden", ALL, "the client is not permitted to get these events"),
    ErrorCode(RESOURCE_EXHAUSTED, "Resource exhausted", ALL, "a limit of the server is reached"),
    ErrorCode(UNSUPPORTED, "Unsupported", ALL, "the server does not support a requested option"),
    ErrorCode(
        CALLBACK_ENDPOINT_ERROR,
        "Callback endpoint error",
        ALL,
        "the callback endpoint was not reached or failed its verification",
    ),
)
EVENTS: Final = Extension(
    f"{_PREFIX}events",
    "Events",
    "ext-events",
    "draft",
    (),
    ALL,  # by the SEP since 2026-07-28; servers of the sketch that preceded it have Events in every revision
    "SEP-3415",
    methods=(
        ExtensionMethod("events/list"),
        ExtensionMethod("events/poll"),
        ExtensionMethod("events/stream", is_endless=True),
        ExtensionMethod("events/subscribe"),
        ExtensionMethod("events/unsubscribe"),
        ExtensionMethod("notifications/events/active", "server"),
        ExtensionMethod("notifications/events/event", "server"),
        ExtensionMethod("notifications/events/heartbeat", "server"),
        ExtensionMethod("notifications/events/error", "server"),
        ExtensionMethod("notifications/events/terminated", "server"),
        ExtensionMethod(
            "notifications/events/list_changed", "server", setting="listChanged", filter_member="eventsListChanged"
        ),
    ),
    sketch_capability="events",
    error_codes=(
        *_EVENT_ERRORS,
        *(
            error._replace(code=SKETCH_CODES[error.code], meaning=f"{error.meaning} (by the sketch before the SEP)")
            for error in _EVENT_ERRORS
        ),
    ),
)

EXTENSIONS: Final = {extension.identifier: extension for extension in (TASKS, SKILLS, APPS, EVENTS)}
"""Every known extension, by its identifier."""

EXTENSION_METHODS: Final = {
    method.name: (extension, method) for extension in EXTENSIONS.values() for method in extension.methods
}
"""Every method of a known extension, by name, with its extension."""

KNOWN_METHODS: Final = frozenset({*METHODS, *EXTENSION_METHODS})
"""The methods of all revisions and of all known extensions."""

CERTAIN_REQUESTS: Final = REQUEST_METHODS.union(
    *(extension.requests for extension in EXTENSIONS.values() if extension.status == "final")
)
"""The methods that expect a response in some revision or final extension."""

ENDLESS_METHODS: Final = ENDLESS_CORE_METHODS | {
    name for name, (_, method) in EXTENSION_METHODS.items() if method.is_endless
}
"""The methods of requests that normally get no response, and end with a cancellation."""

RESULT_TYPES: Final = frozenset(name for extension in EXTENSIONS.values() for name in extension.result_types)
"""The values of `resultType` that known extensions define."""

_NAMESPACES: Final = {
    group: extension
    for name, (extension, _) in EXTENSION_METHODS.items()
    if extension.status == "final" and (group := name.partition("/")[0]) not in METHOD_GROUPS
}
"""The extension that owns the word before the slash of a method, by that word."""

_META_NAMES: Final = frozenset(name for extension in EXTENSIONS.values() for name in extension.meta_members)


def extension_of_method(method: str, rank: int | None) -> Extension | None:
    """Returns the known extension that defines a method in a revision, or None.

    If the revision is unknown, it may be any that the extension has, unless another one has the method itself.
    """
    row = EXTENSION_METHODS.get(method)
    if row is None or (rank is None and method in METHODS):
        return None
    return row[0] if rank is None or row[0].revisions.first <= rank <= row[0].revisions.last else None


def extension_named_by(method: str, rank: int | None) -> Extension | None:
    """Returns the known extension to which a method belongs, also in a revision that cannot have it, or None.

    A method that some revision has itself belongs to an extension only where the extension defines it.
    """
    row = EXTENSION_METHODS.get(method)
    return row[0] if row is not None and method not in METHODS else extension_of_method(method, rank)


def extension_of_namespace(method: str) -> Extension | None:
    """Returns the final extension whose methods alone begin like a method that nobody defines, or None."""
    return None if method in KNOWN_METHODS else _NAMESPACES.get(method.partition("/")[0])


def senders_of(method: str, rank: int | None) -> frozenset[str]:
    """Returns the sides that may send a method in a revision, by the revision or a final extension; empty for none."""
    core_method, extension = METHODS.get(method), extension_of_method(method, rank)
    senders: frozenset[str] = frozenset()
    if core_method is not None and core_method.is_defined(rank):
        senders |= core_method.senders(rank)
    if extension is not None and extension.status == "final":
        sender = EXTENSION_METHODS[method][1].sender
        senders |= {"client", "server"} if sender == "both" else {sender}
    return senders


def is_foreign(method: str) -> bool:
    """Whether an unknown method has a name that only a vendor would choose, unlike those of MCP."""
    group, slash, _ = method.removeprefix("notifications/").partition("/")
    return method not in KNOWN_METHODS and (group not in METHOD_GROUPS if slash else "." in group)


def is_extension_member(name: str) -> bool:
    """Whether a known extension defines a member of `_meta`."""
    return name in _META_NAMES or f"{name.partition('/')[0]}/" in _META_NAMES


def error_code_of(code: int | None, method: str) -> ErrorCode | None:
    """Returns the meaning that a known extension gives to an error code in responses to a method, or None."""
    row = EXTENSION_METHODS.get(method)
    return next((error for error in row[0].error_codes if error.code == code), None) if row is not None else None


def is_draft(method: str) -> bool:
    """Whether only a draft defines a method, so it may not yet follow all that the core requires."""
    return method not in METHODS and method in EXTENSION_METHODS and EXTENSION_METHODS[method][0].status == "draft"


def declares(capabilities: object, extension: Extension) -> bool | None:
    """Whether capabilities declare an extension; None if they are not an object, or its declaration is not valid."""
    if not isinstance(capabilities, dict):
        return None
    if extension.sketch_capability and isinstance(capabilities.get(extension.sketch_capability), dict):
        return True
    extensions = capabilities.get("extensions", {})
    if not isinstance(extensions, dict):
        return None
    if extension.identifier not in extensions:
        return False
    return True if isinstance(extensions[extension.identifier], dict) else None


def has_setting(capabilities: object, extension: Extension, name: str) -> bool | None:
    """Whether capabilities declare a setting of an extension as true; None if they do not validly declare it."""
    if not isinstance(capabilities, dict) or not isinstance(capabilities.get("extensions"), dict):
        return None
    settings = capabilities["extensions"].get(extension.identifier)
    if not isinstance(settings, dict):
        return None
    value = settings.get(name, False)
    return value if isinstance(value, bool) else None


def unknown_extensions(capabilities: object) -> list[str]:
    """Returns the identifiers in capabilities that the list does not have. Untrusted texts."""
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return [name for name in extensions if name not in EXTENSIONS] if isinstance(extensions, dict) else []
