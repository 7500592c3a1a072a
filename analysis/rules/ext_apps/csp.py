"""The origins that a UI resource asks for, from which hosts make a Content Security Policy."""

import re
from collections.abc import Iterator
from typing import ClassVar, Final, Literal, TypeAlias

from analysis.conversation.call import MessageContext
from analysis.rules.base import WARNING
from analysis.rules.ext_apps.resources import CSP_MEMBERS, UiItem, UiResourceRule, ui_meta_of
from analysis.rules.finding import Finding, Impact
from analysis.rules.support.eras import member
from analysis.rules.support.listings import MAX_LISTED_ITEMS

OriginFault: TypeAlias = Literal["injection", "any-host", "not-origin"]
MAX_ORIGIN_CHARS: Final = 300
"""The most characters of an origin; a longer text is not taken for one."""

_HOST: Final = r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?"
_is_origin: Final = re.compile(
    rf"(?:https?|wss?)://(?:(?:\*\.)?{_HOST}|\[[0-9A-Fa-f:.]+\])(?::(?:\d+|\*))?/?"
).fullmatch
_is_any_host: Final = re.compile(r"\*|(?:https?|wss?):|(?:(?:https?|wss?)://)?\*(?::(?:\d+|\*))?/?").fullmatch
_has_separator: Final = re.compile(r"[\s;,'\"<>\\\x00-\x1f\x7f]").search
_LOCAL_SCHEMES: Final = frozenset({"data:", "blob:", "mediastream:", "filesystem:"})
"""Sources that are not origins, but reach no host."""
_HARMLESS_KEYWORDS: Final = frozenset({"'self'", "'none'"})
"""Keywords that hosts set themselves: they add nothing to the policy."""


class _OriginRule(UiResourceRule):
    """The base class of the rules about origins."""

    required_word = b"Domains"
    fault: ClassVar[OriginFault]
    text: ClassVar[str]
    """What is wrong with an entry, after `that`."""

    def check_item(self, context: MessageContext, ui_item: UiItem) -> Iterator[Finding]:
        csp = member(ui_meta_of(ui_item.item), "csp")
        for name in CSP_MEMBERS if isinstance(csp, dict) else ():
            origins = member(csp, name)
            for index, origin in enumerate(origins[:MAX_LISTED_ITEMS] if isinstance(origins, list) else ()):
                if isinstance(origin, str) and origin_fault(origin) == self.fault:
                    text = f"{name} has an entry that {self.text}"  # an address may contain a secret
                    yield self.finding(context, text, pointer=f"{ui_item.pointer}/_meta/ui/csp/{name}/{index}")


class CspInjection(_OriginRule):
    """An entry of `csp` contains a character that ends it, such as a space, a comma or a semicolon, or is a keyword.

    **Why it matters.** Hosts join the entries into a Content Security Policy. Such an entry adds a keyword, such as
    `'unsafe-eval'`, or a directive of its own, with which the UI escapes the host's restrictions.

    **On the wire.** `…"csp":{"connectDomains":["https://a.example; script-src *"]}`

    **Instead.** List each origin as a string of its own: a scheme, a host and perhaps a port.
    """

    id = "ext-apps/csp-injection"
    impact = Impact.SECURITY
    fault = "injection"
    text = "can add to the policy of the host"


class CspAnyHost(_OriginRule):
    """An entry of `csp` matches every host.

    **Why it matters.** The policy no longer limits where the UI can send what it sees, or from where it loads scripts.
    Hosts may refuse the UI.

    **On the wire.** `…"csp":{"connectDomains":["*"],"resourceDomains":["https:"]}`

    **Instead.** List the origins that the UI needs. `https://*.example.com` matches all subdomains.
    """

    id = "ext-apps/csp-any-host"
    level = WARNING
    impact = Impact.SECURITY
    fault = "any-host"
    text = "matches every host"


class CspNotOrigin(_OriginRule):
    """An entry of `csp` is not an origin.

    **Why it matters.** Hosts ignore or refuse it, or allow something else: a path allows only that path, and a host
    without a scheme depends on how the host serves its pages.

    **On the wire.** `…"csp":{"connectDomains":["api.example.com/v1"]}`

    **Instead.** Send scheme, host and perhaps port: `https://api.example.com`, `wss://live.example.com:8443` or, for
    all subdomains, `https://*.example.com`.
    """

    id = "ext-apps/csp-not-origin"
    level = WARNING
    fault = "not-origin"
    text = "is not an origin"


# ---- shared by the rules


def origin_fault(origin: str) -> OriginFault | None:
    """Returns what is wrong with an entry of `csp`, or None if it is an origin, or reaches no host."""
    origin = origin[: MAX_ORIGIN_CHARS + 1]
    if _has_separator(origin):
        is_harmless = origin in _HARMLESS_KEYWORDS or not _has_separator(origin.strip())
        return "not-origin" if is_harmless else "injection"
    if _is_any_host(origin):
        return "any-host"
    if origin in _LOCAL_SCHEMES or (len(origin) <= MAX_ORIGIN_CHARS and _is_origin(origin)):
        return None
    return "not-origin"
