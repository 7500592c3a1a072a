"""Budget: the measured costs of the rules, used to divide rules among processes and to notice expensive ones.

Costs are microseconds of processor time per frame of a capture, averaged over plain calls on stdio and the SDKs'
conversations in both eras. `python -m tests.bench.check --rules` measures them and shows which have changed.
"""

from typing import Final

MAX_COST_US: Final = 1.0
"""The most that a rule may cost unless `REASONS_FOR_COST` says why it costs more."""

RULE_COSTS: Final[dict[str, float]] = {
    "page/duplicate-item": 0.8,
    "tool/repeated-call": 0.8,
    "tool/arguments-invalid": 0.6,
    "tool/structured-not-mirrored": 0.6,
    "resource/duplicate-uri": 0.6,
    "tool/structured-invalid": 0.5,
    "meta/mime-type": 0.4,
    "error/tool-input-as-protocol-error": 0.4,
    "timeout/slow": 0.4,
    "tool/structured-without-schema": 0.3,
    "completion/unknown-reference": 0.3,
    "prompt/incomplete-resource": 0.2,
    "version/fallback": 0.2,
    "resource/size": 0.2,
    "tool/unlisted": 0.2,
    "prompt/unlisted": 0.2,
    "progress/unknown-token": 0.2,
    "progress/duplicate-token": 0.2,
    "progress/flood": 0.2,
    "capability/declared-not-served": 0.2,
    "resource/contents-uri": 0.2,
    "prompt/missing-argument-accepted": 0.2,
    "prompt/missing-argument": 0.2,
    "version/unsupported-not-rejected": 0.1,
    "tool/structured-missing": 0.1,
    "sampling/tool-result-mixed": 0.1,
    "page/unknown-cursor": 0.1,
    "cache/changed-while-fresh": 0.1,
    "prompt/unknown-argument": 0.1,
    "mrtr/invalid-input-response": 0.1,
    "elicitation/sensitive": 0.1,
    "cache/missing-hints": 0.1,
    "cache/invalid-hints": 0.1,
    "tool/failed": 0.1,
    "elicitation/content-mismatch": 0.1,
    "cache/refetched-while-fresh": 0.1,
    "progress/not-increasing": 0.1,
    "mrtr/state-on-other-request": 0.1,
    "modern/missing-server-info": 0.1,
    "logging/invalid-level-accepted": 0.1,
    "page/foreign-cursor": 0.1,
}
"""The costs of the most expensive rules, by the id of the rule."""

DEFAULT_RULE_COST: Final = 0.03
"""The cost of any other rule."""

HOOK_TEST_COSTS: Final = {"on_anomaly": 1.4, "on_problems": 3.0, "on_meta": 0.7}
"""The cost of testing messages for a hook, by hook; a checker with any such rule pays it regardless of the findings."""

REASONS_FOR_COST: Final[dict[str, str]] = {}
"""The reasons why rules cost more than the budget, by the id of the rule."""
