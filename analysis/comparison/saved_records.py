"""How an expectation has the records of a side: such that few lines differ if little changed.

Records refer to captures, frames, results and calls by numbers, which move if something is inserted. An expectation
has digests and names instead, and no captures and frames. What differs from recording to recording, such as latencies,
is kept apart, for the end of the file.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from analysis.checking.baseline import lasting_words

SIGNIFICANT_DIGITS: Final = 3
"""The precision of latencies: an error of at most half a percent, where only differences above 10 % count."""
CHECKSUMS: Final = "checksums"
"""The name of the member with the checksums of ignored values."""
LATENCY: Final = "latency"
_LAST: Final = (CHECKSUMS, LATENCY)
"""What differs in each recording, in the order in which it ends the file."""


def saved_members(records: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of an expectation for records as JSON values, in their order.

    Args:
        records: the record of each aspect, without places; the values in it are used up.
    """
    members = {name: _SAVED[name](record) if name in _SAVED else record for name, record in sorted(records.items())}
    if "values" in members:
        members[CHECKSUMS] = members["values"].pop(CHECKSUMS)
    return members | {name: members.pop(name) for name in _LAST if name in members}


def restored_records(members: dict[str, Any], capture: str) -> dict[str, Any]:
    """Returns records as JSON values for the members of an expectation.

    Args:
        members: the members, as `saved_members` returned them; they are used up.
        capture: the name of the expectation, which stands for its captures.

    Raises:
        AttributeError, LookupError, TypeError, ValueError: these are not such members.
    """
    checksums = members.pop(CHECKSUMS, {})
    if "values" in members:
        members["values"] = _restored_values(members["values"], checksums, capture)
    if "sequence" in members:
        members["sequence"] = _restored_sequence(members["sequence"], capture)
    return members


def _saved_values(record: dict[str, Any]) -> dict[str, Any]:
    rules, results = record["rules"], record.pop("results")
    keys = _result_keys([digest for digest, _, _ in results])
    record["results"] = {
        key: [text, [[rules[rule], count] for rule, count in passed]]
        for key, (_, text, passed) in zip(keys, results, strict=True)
    }
    record["checksums"] = {
        digest: [answer[5] for answer in row["answers"]]
        for digest, row in record["requests"].items()
        if any(answer[5] for answer in row["answers"])
    }
    for row in record["requests"].values():
        row["answers"] = [[keys[result], times] for result, times, *_ in row["answers"]]
    del record["captures"]
    return record


def _result_keys(digests: list[str]) -> list[str]:
    """Returns a key for each result: its digest, with a number if several have the same one."""
    counts: Counter[str] = Counter()
    keys = []
    for digest in digests:
        counts[digest] += 1
        keys.append(digest if counts[digest] == 1 else f"{digest}/{counts[digest]}")
    return keys


def _restored_values(saved: dict[str, Any], checksums: dict[str, list[str]], capture: str) -> dict[str, Any]:
    rules = {rule: index for index, rule in enumerate(saved["rules"])}
    indexes = {key: index for index, key in enumerate(saved["results"])}
    for digest, row in saved["requests"].items():
        varied = checksums.get(digest, [""] * len(row["answers"]))
        row["answers"] = [
            [indexes[key], times, 0, 0, -1, checksum]
            for (key, times), checksum in zip(row["answers"], varied, strict=True)
        ]
    results = [
        [key.partition("/")[0], text, [[rules[rule], count] for rule, count in passed]]
        for key, (text, passed) in saved["results"].items()
    ]
    return saved | {"captures": [capture], "results": results}


def _saved_sequence(record: dict[str, Any]) -> dict[str, Any]:
    calls, counts = record.pop("calls"), record.pop("counts")
    runs = [[*calls[call], times, is_concurrent] for call, times, is_concurrent, *_ in record.pop("runs")]
    del record["captures"]
    return record | {"calls": [[*call, count] for call, count in zip(calls, counts, strict=True)], "runs": runs}


def _restored_sequence(saved: dict[str, Any], capture: str) -> dict[str, Any]:
    calls = [call for *call, _ in saved["calls"]]
    indexes = {tuple(call): index for index, call in enumerate(calls)}
    return saved | {
        "captures": [capture],
        "calls": calls,
        "counts": [row[-1] for row in saved["calls"]],
        "runs": [[indexes[tuple(call)], times, concurrent, 0, 0, -1] for *call, times, concurrent in saved["runs"]],
    }


def _saved_findings(record: dict[str, Any]) -> dict[str, Any]:
    for row in record["findings"].values():
        row["message"] = lasting_words(row["message"])
    return record


def _saved_latency(record: dict[str, Any]) -> dict[str, Any]:
    for calls in record["calls"]:
        calls["times_ns"] = [_rounded(time_ns) for time_ns in calls["times_ns"]]
    return record


def _rounded(time_ns: int) -> int:
    return round(time_ns, min(0, SIGNIFICANT_DIGITS - len(str(abs(time_ns)))))


_SAVED: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "findings": _saved_findings,
    "values": _saved_values,
    "sequence": _saved_sequence,
    LATENCY: _saved_latency,
}
