"""What a filter of findings knows about the message of each finding."""

from pathlib import Path

from analysis.conversation.call import Outcome
from analysis.conversation.fold import Fold
from analysis.filter import Filter, parse
from captures.frames import FrameAssembler
from captures.reader import Capture
from mcpproxy.check_run.examine import CheckOptions, examine_capture
from mcpproxy.check_run.result import LocatedFinding
from tests.analysis.talk import unanswered
from tests.analysis.traces import CORPUS, read


def failed_requests(path: Path) -> set[int]:
    """Returns the numbers of the requests whose HTTP exchange ended before a response."""
    fold, assembler, failed = Fold(), FrameAssembler(), set[int]()
    for item in Capture(path):
        assembled = assembler.feed(item)
        if assembled is not None:
            fold.feed(assembled)
            failed |= {one.request.seq for one in unanswered(fold) if one.outcome is Outcome.FAILED}
    return failed


def found(path: Path, only: Filter | None) -> set[tuple[str, int]]:
    events = examine_capture(path, CheckOptions(only=only))
    return {(one.finding.rule, one.finding.frame) for one in events if isinstance(one, LocatedFinding)}


def test_a_request_that_failed_with_its_http_exchange_is_a_failure(tmp_path: Path) -> None:
    path, context = tmp_path / "a.mcpcap", 0
    for case in read(CORPUS / "auth.ndjson"):
        path.write_bytes(b"".join(line for _, line in case.records()))
        failed = failed_requests(path)
        if not failed:
            continue
        wanted = {one for one in found(path, None) if one[1] in failed}
        context += len(wanted)
        assert wanted <= found(path, parse("has:failure")), case
    assert context > 3
