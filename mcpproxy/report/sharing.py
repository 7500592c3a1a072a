"""The account of a redacted copy, as text for people and as JSON for programs."""

from collections.abc import Iterator
from typing import Any, Final

from mcpproxy.sanitise import sanitise
from mcpproxy.sharing.account import RedactionAccount
from mcpproxy.wording.counts import count_text

MAX_PLACES: Final = 3
"""The maximum number of places of a kind that the text names."""
_MAX_NAMED_FRAMES: Final = 10
_STAYING_NOUNS: Final = {
    "phone-number": ("telephone number",),
    "iban": ("bank account (IBAN)", "bank accounts (IBAN)"),
    "mac-address": ("MAC address", "MAC addresses"),
}
"""By the kind of number that only `--personal` replaces: its noun, and the plural."""
REVIEW: Final = "no list of secrets is complete, so review the copy before you publish it"
NOTHING_FOUND: Final = (
    "no likely secrets found; no scan finds every secret, so review the capture before you publish it"
)
"""The text for a capture without a likely secret; it must not sound like a promise."""


def account_lines(account: RedactionAccount) -> Iterator[str]:
    """Yields the account, line by line."""
    kinds = account.kinds
    replacement_count = sum(count for count, _ in kinds.values())
    left_out = f", {count_text(account.left_out_records, 'record')} left out" if account.left_out_records else ""
    yield (
        f"{sanitise(str(account.path))}: {count_text(account.records, 'record')}, "
        f"{count_text(account.frames, 'frame')}{left_out}; {count_text(replacement_count, 'replacement')}"
    )
    if account.is_unchanged:
        yield "  the file already has exactly this content, so it was not touched"
    if account.left_out_unknown_records:
        yield f"  left out because their type is unknown: {count_text(account.left_out_unknown_records, 'record')}"
    if account.out_of_order_records:
        yield f"  left out because they are out of order: {count_text(account.out_of_order_records, 'record')}"
    if kinds:
        width = max(len(kind) for kind in kinds) + 2
        yield f"  {'kind':<{width}}{'times':>7}  {'different':>9}  where"
        for kind, (count, distinct) in kinds.items():
            yield f"  {sanitise(kind):<{width}}{count:>7,}  {distinct:>9,}  {_places_text(account, kind)}"
    else:
        yield f"  {NOTHING_FOUND}"
    yield from _not_searched_lines(account)
    share = account.bytes_kept / account.bytes_before if account.bytes_before else 1.0
    findings = (
        f"; {account.findings_kept:,} of {count_text(account.findings_before, 'finding')}"
        if account.findings_before
        else ""
    )
    yield f"  unchanged: {share:.1%} of the frame bytes{findings if account.is_compared else ''}"
    for rules, verb in ((account.hidden_findings, "hides"), (account.created_findings, "creates")):
        for rule, count in rules.most_common():
            yield f"  the redaction {verb} {count_text(count, 'finding')} of {sanitise(rule)}"
    if account.changed_frames:
        frames = ", ".join(map(str, account.changed_frames[:_MAX_NAMED_FRAMES])) + (
            ", …" if len(account.changed_frames) > _MAX_NAMED_FRAMES else ""
        )
        yield f"  no longer the same kind of message: {count_text(len(account.changed_frames), 'frame')} ({frames})"
    if kinds:
        yield f"  {REVIEW}"


def _not_searched_lines(account: RedactionAccount) -> Iterator[str]:
    """Yields what was not searched for everywhere, and what was not replaced piece by piece."""
    if account.left_out_values:
        values = count_text(account.left_out_values, "secret")
        yield f"  not searched for elsewhere, because they are too many or too long: {values}"
    for reason, count in account.unparsed_counts.most_common():
        treatment = "searched as plain text" if account.keeps_unparsed else "replaced entirely"
        if reason == "stderr":
            yield f"  {count_text(count, 'line of stderr', 'lines of stderr')} {treatment}"
        else:
            yield f"  {count_text(count, 'frame')} not parsed: {reason}; {treatment}"
    for pattern in account.unmatched_patterns:
        yield f"  nothing matches --redact {sanitise(pattern, 60)}"
    staying_texts = [
        count_text(account.personal_numbers.counts[kind], *nouns) for kind, nouns in _STAYING_NOUNS.items()
    ]
    staying_texts = [text for text in staying_texts if not text.startswith("0 ")]
    if staying_texts:
        qualifier = "at least " if account.personal_numbers.is_partial else ""
        yield f"  {qualifier}{' and '.join(staying_texts)} stay; --personal replaces them"


def _places_text(account: RedactionAccount, kind: str) -> str:
    places = account.places_of(kind)
    place_list = ", ".join(sanitise(place, 60) for place, _ in places[:MAX_PLACES])
    return place_list + (f", and {len(places) - MAX_PLACES:,} more" if len(places) > MAX_PLACES else "")


def account_row(account: RedactionAccount) -> dict[str, Any]:
    """Returns the account as a JSON object."""
    return {
        "capture": str(account.path),
        "records": account.records,
        "frames": account.frames,
        "left_out": account.left_out_records,
        "unknown_left_out": account.left_out_unknown_records,
        "out_of_order": account.out_of_order_records,
        "replaced": [
            {
                "what": kind,
                "times": count,
                "different": distinct,
                "where": [{"place": place, "times": times} for place, times in account.places_of(kind)],
            }
            for kind, (count, distinct) in account.kinds.items()
        ],
        "left_out_values": account.left_out_values,
        "not_parsed": dict(account.unparsed_counts),
        "unmatched": account.unmatched_patterns,
        "staying": dict(account.personal_numbers.counts),
        "unchanged": account.is_unchanged,
        "bytes": {"all": account.bytes_before, "unchanged": account.bytes_kept},
        "findings": {
            "all": account.findings_before,
            "unchanged": account.findings_kept,
            "hidden": dict(account.hidden_findings),
            "created": dict(account.created_findings),
        },
        "changed_frames": account.changed_frames,
    }
