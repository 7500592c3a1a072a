"""The worker finds what `check` finds, may fall behind or die without harm, and never outlives the screen."""

from pathlib import Path

from analysis.rules.finding import Finding, Level
from analysis.tally import Tally, cached
from mcpproxy.tui.data import findings as found_module
from mcpproxy.tui.data.findings import Findings
from tests.mcpproxy.tui.in_process_reading import InProcessReading as Reading
from tests.mcpproxy.tui.stage import captured


def read(path: Path) -> Reading:
    reading = Reading(path)
    while reading.step():
        pass
    return reading


def test_messages_of_a_worker_are_checked(tmp_path: Path) -> None:
    reading = read(captured(tmp_path))
    findings = Findings(reading.index)
    one = Finding("id/unknown-response", Level.ERROR, "server", 1, 3, "x")
    for _ in range(found_module.MAX_FINDINGS_WITH_TEXT + 5):
        findings.add_finding(one)
    for seq in (1 << 62, -1, 10**30):
        findings.add_finding(one._replace(frame=seq))
    assert len(findings.kept_findings) == found_module.MAX_FINDINGS_WITH_TEXT
    assert findings.worst_level_and_count(3) == (Level.ERROR, found_module.MAX_COUNT_PER_ROW)
    reading.close()


def test_a_tally_of_other_rules_is_counted_anew(tmp_path: Path) -> None:
    from analysis import tally
    from analysis.cached import JUDGING_MODULES, modules_hash

    path = captured(tmp_path)
    key = tally.key_of(path)
    assert key is not None
    assert tally.save(path, key, Tally(1, 2, 3))
    assert cached(path) == Tally(1, 2, 3)
    assert Tally(1, 2, 3).violations == 5
    assert not tally.save(path, "another" + key, Tally(1, 2, 3))
    (file,) = (tmp_path / "cache/mcpproxy/summaries").glob("*.tally")
    for text in (
        file.read_text().replace(modules_hash(JUDGING_MODULES), "0" * 32),
        '{"tally":[1]}',
        "[",
        "[" * 100_000,
    ):
        file.write_text(text)
        assert cached(path) is None
