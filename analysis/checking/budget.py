"""Budget: what each rule costs, as measured, to divide rules among processes and to notice one that costs much.

Figures are microseconds of processor time for each frame of a capture, on average over plain calls on stdio and the
SDKs' conversations in both eras. `python -m tests.bench.check --rules` measures them and shows which have changed.
"""

from typing import Final

BUDGET: Final = 1.0
"""What a rule may cost without a reason."""

COSTS: Final[dict[str, float]] = {
    "tool/repeated-call": 1.4,
    "page/duplicate-item": 1.2,
    "tool/arguments-invalid": 1.0,
    "resource/duplicate-uri": 0.9,
    "tool/structured-not-mirrored": 0.8,
    "tool/structured-invalid": 0.8,
    "timeout/slow": 0.8,
    "meta/mime-type": 0.7,
    "error/tool-input-as-protocol-error": 0.6,
    "tool/structured-without-schema": 0.5,
    "completion/unknown-reference": 0.4,
    "prompt/incomplete-resource": 0.4,
    "progress/duplicate-token": 0.4,
    "version/fallback": 0.3,
    "resource/size": 0.3,
    "prompt/unlisted": 0.3,
    "resource/contents-uri": 0.3,
    "tool/unlisted": 0.3,
    "sampling/tool-result-mixed": 0.3,
    "capability/declared-not-served": 0.3,
    "progress/unknown-token": 0.3,
    "mrtr/invalid-input-response": 0.3,
    "prompt/missing-argument-accepted": 0.2,
    "progress/flood": 0.2,
    "prompt/missing-argument": 0.2,
    "version/unsupported-not-rejected": 0.2,
    "tool/structured-missing": 0.2,
    "elicitation/sensitive": 0.2,
    "page/unknown-cursor": 0.2,
    "cache/refetched-while-fresh": 0.2,
    "tool/failed": 0.2,
    "elicitation/content-mismatch": 0.2,
    "elicitation/schema-not-flat": 0.2,
    "progress/not-increasing": 0.2,
    "cache/missing-hints": 0.2,
    "cache/changed-while-fresh": 0.2,
    "cache/invalid-hints": 0.2,
    "version/mixed-on-connection": 0.1,
}
"""The rules that cost most."""

OTHERS: Final = 0.03
"""What any other rule costs."""

TESTS: Final = {"on_odd": 2.0, "on_problems": 4.5, "on_meta": 1.0}
"""What a checker spends on messages if it has any rule with this hook, whatever the rule finds."""

REASONS: Final = {
    "tool/repeated-call": "it compares the arguments of each call with those of all others",
    "page/duplicate-item": "as the first of the rules that need a list, it reads the list for all of them",
}
"""Why a rule costs more than the budget."""
