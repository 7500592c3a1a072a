"""The lines that `doctor URL --as HOST` prints after the verdicts: what was checked, and what could not be."""

from collections.abc import Iterator, Sequence

from mcpproxy.clients.hosted import Requirement
from mcpproxy.doctor.examination import ExaminationResult
from mcpproxy.doctor.hosted_checklist import INVISIBLE, Checklist
from mcpproxy.report.output import width_of_stdout
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.wrapping import wrapped


def checklist_lines(checklist: Checklist, width: int) -> Iterator[str]:
    """Yield the lines that say what was checked for a hosted client, and what could not be.

    Args:
        checklist: the requirements of the client.
        width: the width of the screen.
    """
    title, as_of = checklist.client.title, checklist.client.as_of
    yield from _indented(f"checked for {title}, as of {as_of}: {_kinds(checklist.checked)}", width)
    for reason in dict.fromkeys(reason for _, reason in checklist.unchecked):
        kinds = _kinds([requirement for requirement, other in checklist.unchecked if other == reason])
        yield from _indented(f"not checked, because {reason}: {kinds}", width)


def summary_lines(results: Sequence[ExaminationResult]) -> Iterator[str]:
    """Yield the last lines: what no request from here shows, and how many clients cannot use the server."""
    failing_count = sum(result.fails for result in results)
    yield ""
    yield from wrapped(f"Not visible from here: {'; '.join(INVISIBLE)}.", width_of_stdout(100))
    yield f"examined for {count_text(len(results), 'hosted client')}, not working for {failing_count}"


def _kinds(requirements: Sequence[Requirement]) -> str:
    return ", ".join(each.name for each in requirements) or "nothing"


def _indented(text: str, width: int) -> Iterator[str]:
    return (f"    {line}" if number else f"  {line}" for number, line in enumerate(wrapped(text, width - 4)))
