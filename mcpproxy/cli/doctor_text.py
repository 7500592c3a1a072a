"""The text output of `doctor`: the result of each examination, a summary, and errors."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from mcpproxy.cli.hosted_text import checklist_lines
from mcpproxy.doctor.examination import ExaminationResult
from mcpproxy.doctor.pages import paragraphs
from mcpproxy.doctor.verdict import Diagnosis, Verdict
from mcpproxy.doctor.verdicts import VERDICTS, MissingConsent
from mcpproxy.report.output import width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, nanoseconds
from mcpproxy.wording.wrapping import wrapped

MAX_LISTED_NAMES: Final = 6
"""The maximum number of names or files that an error lists."""
_MAX_COLUMNS: Final = 100
_STEP_TITLES: Final = {"first_byte": "first byte", "initialize": "initialize", "tools_list": "tools/list"}


def file_lines(client: str, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the lines about a client's configuration file."""
    width = width_of_stdout(_MAX_COLUMNS)
    yield fit(f"{_sign(diagnosis)} {client}", width)
    yield from _diagnosis_lines(diagnosis, width)


def result_lines(result: ExaminationResult, place: str) -> Iterator[str]:
    """Yield the lines about a server.

    Args:
        result: the result of the server's examination.
        place: the location of its entry; empty if no other entry has the same name.
    """
    width = width_of_stdout(_MAX_COLUMNS)
    name = sanitise(result.name, 40)
    head = f"{result.client}  {name}" if result.client else name
    sign = "✗" if result.fails else "✓" if result.is_examined else "·"
    tools = "" if result.tools is None else f"  {count_text(result.tools, 'tool')}"
    place_text = f"  ({sanitise(place, 200)})" if place else ""
    yield fit(f"{sign} {head}{tools}{place_text}", width)
    if result.timings_ms:
        yield from (f"    {line}" for line in wrapped(_timings_text(result), width - 4))
    for diagnosis in result.diagnoses:
        yield from _diagnosis_lines(diagnosis, width)
    if result.checklist is not None:
        yield from checklist_lines(result.checklist, width)


def summary_lines(results: Sequence[ExaminationResult]) -> Iterator[str]:
    """Yield the last lines: how many servers were examined, and how many of them do not work."""
    failing_count = sum(result.fails for result in results)
    examined_count = sum(result.is_examined for result in results)
    yield ""
    if not results:
        yield "No server was found to examine; first fix the files above"
    if examined_count:
        yield f"{count_text(examined_count, 'server')} examined, {failing_count} not working"
    unexamined_results = [result for result in results if not result.is_examined]
    project_count = sum(
        any(diagnosis.verdict is MissingConsent for diagnosis in result.diagnoses) for result in unexamined_results
    )
    if project_count:
        yield f"{count_text(project_count, 'server')} of the project not started; name one to start it"
    if project_count < len(unexamined_results):
        yield f"{count_text(len(unexamined_results) - project_count, 'server')} not examined, for the reason given"


def progress_text(names: Iterable[str], done: int, count: int) -> str:
    """Return the progress message: the servers still being examined, and how many are done."""
    return f"waiting for {list_names(names)} ({done} of {count} done)"


def verdict_page(verdict: type[Verdict]) -> str:
    """Return the page of a verdict, wrapped to the width of stdout."""
    width = width_of_stdout(_MAX_COLUMNS)
    return "\n\n".join("\n".join(wrapped(paragraph, width)) for paragraph in paragraphs(verdict)) + "\n"


def unknown_verdict_error(name: str) -> str:
    """Return the error for an unknown verdict, with the nearest ids or, if there are none, all ids."""
    ids = [verdict.id for verdict in VERDICTS]
    ids_by_part = {part: [id_ for id_ in ids if part in id_.split("/")] for id_ in ids for part in id_.split("/")}
    near_ids = get_close_matches(name, ids, 3)
    near_ids += [id_ for part in get_close_matches(name, ids_by_part, 3) for id_ in ids_by_part[part]]
    near_ids += [id_ for id_ in ids if len(name) > 2 and name in id_]
    suggestions = list(dict.fromkeys(near_ids))[:MAX_LISTED_NAMES]
    choice = " or ".join(filter(None, (", ".join(suggestions[:-1]), *suggestions[-1:])))
    hint = f"did you mean {choice}?" if suggestions else f"the verdicts are {', '.join(ids)}"
    return f"there is no verdict {sanitise(name, 64)}; {hint}"


def list_names(names: Iterable[str]) -> str:
    """List the first few names, each once, and count the others."""
    unique_names = [sanitise(name, 100) for name in dict.fromkeys(names)]
    others_text = f" and {len(unique_names) - MAX_LISTED_NAMES} more" if len(unique_names) > MAX_LISTED_NAMES else ""
    return f"{', '.join(unique_names[:MAX_LISTED_NAMES])}{others_text}"


def missing_dashes_error(words: Sequence[str]) -> str:
    """Return the error for a command that was typed without `--`."""
    return f"a command goes after --: mcpproxy doctor -- {sanitise(shlex.join(words), 1000)}"


def _sign(diagnosis: Diagnosis) -> str:
    return "✗" if diagnosis.verdict.fails else "·"


def _diagnosis_lines(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    verdict = diagnosis.verdict
    yield f"  {_sign(diagnosis)} {verdict.id}: {verdict.title()}"
    needs_step = verdict.fails or verdict.leaves_unexamined
    advice = diagnosis.advice or (verdict.first_step() if needs_step else "")
    for text in (diagnosis.evidence, *([f"→ {advice}"] if advice else [])):
        yield from (f"    {line}" for line in wrapped(sanitise(text, 1000), width - 4))


def _timings_text(result: ExaminationResult) -> str:
    """List when each step was done. All times count from the start; "after" shows that they must not be added up."""
    # A server without tools gets no `tools/list` request; its time is then the time of `initialize`.
    steps = {name: ms for name, ms in result.timings_ms.items() if name != "tools_list" or result.tools is not None}
    return ", ".join(f"{_STEP_TITLES[name]} after {duration(nanoseconds(ms))}" for name, ms in steps.items())
