"""The extensions of MCP that are known, as data: a closed list, with one row for each.

A row names what an extension adds to the protocol: its methods, its error codes, its result types, and the members of
`_meta` that carry its ids. Anything that judges, names or groups messages of an extension takes these facts from here.
What an extension means beyond that is in the group of rules that is named after it (`analysis/rules/ext_*`), and the
shapes of its bodies are in `analysis/shapes/extensions`.

An extension that is not in the list is never a fault: its methods are shown and timed, but not judged.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from analysis.protocol.error_codes import ErrorCode
from analysis.protocol.revisions import ALL, MODERN_ERA, Span

Status: TypeAlias = Literal["final", "draft"]
"""Whether an extension can still change: findings about a draft are notes, never errors or warnings."""
ExtensionSender: TypeAlias = Literal["client", "server", "both"]


class ExtensionMethod(NamedTuple):
    """One method that an extension defines, or to which it gives another meaning than the core does."""

    name: str
    sender: ExtensionSender = "client"
    setting: str = ""
    """The setting of the extension that the receiver must have declared as true; empty for none."""
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
    capability: str = ""
    """The capability outside `extensions` that also declares it, as a draft may have; empty for none."""
    declared_by: frozenset[str] = frozenset({"client", "server"})
    """The sides that declare it."""
    meta_members: tuple[str, ...] = ()
    """Members of `_meta` that it defines; a name that ends with `/` stands for all names with that prefix."""
    result_types: tuple[str, ...] = ()
    """Values of `resultType` that it defines."""
    error_codes: tuple[ErrorCode, ...] = ()
    """Codes to which it gives a meaning."""


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
        ExtensionMethod("tasks/get"),
        ExtensionMethod("tasks/update"),
        ExtensionMethod("tasks/cancel"),
        ExtensionMethod("notifications/tasks", "server"),
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
        ExtensionMethod("skills/get"),
        ExtensionMethod("resources/directory/read", setting="directoryRead"),
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
EVENTS: Final = Extension(
    f"{_PREFIX}events",
    "Events",
    "ext-events",
    "draft",
    (),
    MODERN_ERA,
    "draft of the Events extension",
    methods=(
        ExtensionMethod("events/list"),
        ExtensionMethod("events/poll"),
        ExtensionMethod("events/stream", is_endless=True),
        ExtensionMethod("events/subscribe"),
        ExtensionMethod("events/unsubscribe"),
        ExtensionMethod("notifications/events/event", "server"),
        ExtensionMethod("notifications/events/list_changed", "server"),
    ),
    capability="events",
    declared_by=frozenset({"server"}),
)

EXTENSIONS: Final = {extension.identifier: extension for extension in (TASKS, SKILLS, APPS, EVENTS)}
"""Every known extension, by its identifier."""

EXTENSION_METHODS: Final = {
    method.name: (extension, method) for extension in EXTENSIONS.values() for method in extension.methods
}
"""Every method of a known extension, by name, with its extension."""


def extension_of_method(method: str, rank: int | None) -> Extension | None:
    """Returns the known extension that defines a method in a revision, or None; an unknown revision may be any."""
    row = EXTENSION_METHODS.get(method)
    if row is None or not (rank is None or row[0].revisions.first <= rank <= row[0].revisions.last):
        return None
    return row[0]


def declares(capabilities: object, extension: Extension) -> bool | None:
    """Whether capabilities declare an extension; None if they are not an object, or its declaration is not valid."""
    if not isinstance(capabilities, dict):
        return None
    if extension.capability and isinstance(capabilities.get(extension.capability), dict):
        return True
    extensions = capabilities.get("extensions")
    if extensions is None:
        return False
    if not isinstance(extensions, dict):
        return None
    if extension.identifier not in extensions:
        return False
    return True if isinstance(extensions[extension.identifier], dict) else None


def unknown_extensions(capabilities: object) -> list[str]:
    """Returns the identifiers in capabilities that the list does not have. Untrusted texts."""
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return [name for name in extensions if name not in EXTENSIONS] if isinstance(extensions, dict) else []
