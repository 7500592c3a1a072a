"""Findings as SARIF 2.1.0, for code scanning and editors: one run, a result per finding, and the pages of their rules.

The document is streamed, so a million findings need no memory. The rules therefore come after the results; only rules
with a result are in the document. A result names the file of the capture, with the line and the bytes of the record.
Rules have their page as text and no address, because they are shipped with the program. Brackets and braces have a
meaning in SARIF's messages; in untrusted text they are escaped, so the text cannot create links.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from analysis.rules.base import Rule
from analysis.rules.finding import Level
from mcpproxy import __version__
from mcpproxy.check_run.result import CheckOutcome, LocatedFinding, RecordLocation, Reporter, Totals
from mcpproxy.report.github import relative_path
from mcpproxy.report.output import json_line
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.rule_pages import page, summary_of

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
"""The schema that a document declares; mcpproxy never fetches it."""

DOCUMENT_START: Final = f'{{"$schema":"{SCHEMA}","version":"2.1.0","runs":[{{"results":[\n'
"""The beginning of a document; results with commas between them follow, and then `document_end`."""
ACCEPTED: Final = {"kind": "external", "status": "accepted"}
"""The suppression of a result that a baseline accepts."""
_LINK_CHARS: Final = re.compile(r"[\\\[\]]")


class SarifReporter(Reporter):
    """Writes one run over all captures."""

    def __init__(self, rules: Mapping[str, type[Rule]]) -> None:
        """Start without results.

        Args:
            rules: the rules that ran, by id.
        """
        self._rules = rules
        self._rule_indexes: dict[str, int] = {}
        """The rules with results, and their positions in the document."""
        self._result_count = 0
        self._has_failed = False
        self._notes: list[dict[str, Any]] = []
        """Notifications about what made the run fail, and about forgotten requests."""

    def report(self, located: LocatedFinding) -> Iterable[str]:
        """Write a result; findings in the baseline are marked as suppressed."""
        yield DOCUMENT_START if not self._result_count else ",\n"
        self._result_count += 1
        yield sarif_json(self._result(located))

    def finish(self, ended: CheckOutcome) -> Iterable[str]:
        """Write nothing yet: the end of the document reports failed rules and what was forgotten."""
        self._add_failures(*(f"{rule} failed on {ended.capture}: {fault}" for rule, fault in ended.faults.items()))
        self._notes += [notification("warning", f"{ended.capture}: {kind.text}") for kind in ended.forgotten]
        return ()

    def unreadable(self, capture: Path, why: str) -> Iterable[str]:  # noqa: ARG002 - the reason names it
        """Write nothing yet: the end of the document has a notification."""
        self._add_failures(sanitise(why, None))
        return ()

    def close(self, totals: Totals) -> Iterable[str]:  # noqa: ARG002
        """Yields the rest of the document, or the whole document if there are no findings."""
        if not self._result_count:
            yield DOCUMENT_START
        rules = [_descriptor(self._rules[rule]) for rule in self._rule_indexes]
        yield document_end(rules, self._notes, has_failed=self._has_failed)

    def _add_failures(self, *reasons: str) -> None:
        self._has_failed = self._has_failed or bool(reasons)
        self._notes += [notification("error", reason) for reason in reasons]

    def _result(self, located: LocatedFinding) -> dict[str, Any]:
        finding = located.finding
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "level": str(finding.level),
            "message": {"text": escaped_text(located.text)},
            "locations": [_location(located)],
            "partialFingerprints": {"finding/v1": located.fingerprint},
            "properties": {
                "blames": finding.blames,
                "session": finding.session,
                "frame": finding.frame,
                "related": list(finding.related),
                "more": finding.more,
                "pointer": finding.pointer,
            },
        }
        if finding.rule in self._rules:
            result["ruleIndex"] = self._rule_indexes.setdefault(finding.rule, len(self._rule_indexes))
        if located.is_accepted:
            result["suppressions"] = [ACCEPTED]
        return result


def document_end(rules: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]], *, has_failed: bool) -> str:
    """Returns the end of a document.

    Args:
        rules: the descriptors of the rules with results; each result has the index of its rule.
        notes: notifications about the run.
        has_failed: whether something could not be checked.
    """
    tool = {"driver": {"name": "mcpproxy", "version": __version__, "rules": rules}}
    invocation = {"executionSuccessful": not has_failed, "toolExecutionNotifications": notes}
    tail = f'"columnKind":"unicodeCodePoints","invocations":{sarif_json([invocation])}'
    return f'\n],"tool":{sarif_json(tool)},{tail}}}]}}\n'


def escaped_text(text: str) -> str:
    """Returns a text escaped for a SARIF message."""
    return _LINK_CHARS.sub(r"\\\g<0>", text).replace("{", "{{").replace("}", "}}")


def uri_of(path: Path) -> str:
    """Returns a file as a URI reference: relative to the working directory if it is below it, otherwise absolute."""
    uri_path = relative_path(path)
    if os.path.isabs(uri_path):
        return "file://" + quote(os.fsencode(uri_path))
    # A first segment with a colon would be a scheme.
    return quote(os.fsencode(uri_path), safe="/")


def notification(level: str, text: str) -> dict[str, Any]:
    """Returns a notification about the run; the text is escaped."""
    return {"level": level, "message": {"text": escaped_text(text)}}


def _descriptor(rule: type[Rule]) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": escaped_text(summary_of(rule))},
        "help": {"text": f"See `mcpproxy rule {rule.id}`.", "markdown": page(rule)},
        "defaultConfiguration": {"level": str(Level(rule.level))},
    }


def _location(located: LocatedFinding) -> dict[str, Any]:
    place, file = located.place, {"uri": uri_of(located.file)}
    if place is None:
        return {"physicalLocation": {"artifactLocation": file}}
    return {"physicalLocation": {"artifactLocation": file, "region": region_of(place)}}


def region_of(location: RecordLocation) -> dict[str, int]:
    """Returns the line and the bytes of a record as a region."""
    return {"startLine": location.line, "byteOffset": location.offset, "byteLength": location.size}


def sarif_json(value: Any) -> str:
    """Returns a part of a document as JSON without a line end."""
    if isinstance(value, dict):
        return json_line(value).removesuffix("\n")
    return json_line({"": value}).removesuffix("\n").removeprefix('{"":').removesuffix("}")
