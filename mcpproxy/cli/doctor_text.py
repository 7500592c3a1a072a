"""What `doctor` prints for people: each result as soon as it is complete, and a summary."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Final

from mcpproxy.cli.hosted_text import checklist_lines
from mcpproxy.doctor.examination import Result
from mcpproxy.doctor.pages import paragraphs
from mcpproxy.doctor.verdict import Diagnosis, Verdict
from mcpproxy.doctor.verdicts import VERDICTS, NeedsConsent
from mcpproxy.report.output import width_of_stdout
from mcpproxy.sanitise import sanitise
from mcpproxy.wording.cells import fit
from mcpproxy.wording.counts import count_text
from mcpproxy.wording.units import duration, nanoseconds
from mcpproxy.wording.wrapping import wrapped

MAX_LISTED_NAMES: Final = 6
"""How many names or files an error lists."""
_WIDEST: Final = 100
_STEPS: Final = {"first_byte": "first byte", "initialize": "initialize", "tools_list": "tools/list"}


def file_lines(client: str, diagnosis: Diagnosis) -> Iterator[str]:
    """The lines about a file of a client."""
    width = width_of_stdout(_WIDEST)
    yield fit(f"{_sign(diagnosis)} {client}", width)
    yield from _details(diagnosis, width)


def result_lines(result: Result, place: str) -> Iterator[str]:
    """The lines about a server.

    Args:
        result: the result of its examination.
        place: which entry of this name it is; empty if the name is unique.
    """
    width = width_of_stdout(_WIDEST)
    name = sanitise(result.name, 40)
    head = f"{result.client}  {name}" if result.client else name
    sign = "✗" if result.fails else "✓" if result.is_examined else "·"
    tools = "" if result.tools is None else f"  {count_text(result.tools, 'tool')}"
    where = f"  ({sanitise(place, 200)})" if place else ""
    yield fit(f"{sign} {head}{tools}{where}", width)
    if result.timings_ms:
        yield from (f"    {line}" for line in wrapped(_times(result), width - 4))
    for diagnosis in result.diagnoses:
        yield from _details(diagnosis, width)
    if result.checklist is not None:
        yield from checklist_lines(result.checklist, width)


def summary_lines(results: Sequence[Result]) -> Iterator[str]:
    """The last lines: how many servers were examined, and how many of them do not work."""
    bad = sum(result.fails for result in results)
    examined = sum(result.is_examined for result in results)
    yield ""
    if not results:
        yield "No server was found to examine; first fix the files above"
    if examined:
        yield f"{count_text(examined, 'server')} examined, {bad} not working"
    unexamined = [result for result in results if not result.is_examined]
    of_project = sum(any(diagnosis.verdict is NeedsConsent for diagnosis in result.diagnoses) for result in unexamined)
    if of_project:
        yield f"{count_text(of_project, 'server')} of the project not started; name one to start it"
    if of_project < len(unexamined):
        yield f"{count_text(len(unexamined) - of_project, 'server')} not examined, for the reason given"


def awaited(names: Iterable[str], done: int, count: int) -> str:
    """The progress: the servers still awaited, and how many are done."""
    return f"waiting for {listed(names)} ({done} of {count} done)"


def page(verdict: type[Verdict]) -> str:
    """The page of a verdict, wrapped."""
    width = width_of_stdout(_WIDEST)
    return "\n\n".join("\n".join(wrapped(paragraph, width)) for paragraph in paragraphs(verdict)) + "\n"


def no_verdict(name: str) -> str:
    """The error if there is no verdict with this id, with the nearest ids, or all of them."""
    ids = [verdict.id for verdict in VERDICTS]
    parts = {part: [id_ for id_ in ids if part in id_.split("/")] for id_ in ids for part in id_.split("/")}
    near = get_close_matches(name, ids, 3)
    near += [id_ for part in get_close_matches(name, parts, 3) for id_ in parts[part]]
    near += [id_ for id_ in ids if len(name) > 2 and name in id_]
    close = list(dict.fromkeys(near))[:MAX_LISTED_NAMES]
    choice = " or ".join(filter(None, (", ".join(close[:-1]), *close[-1:])))
    hint = f"did you mean {choice}?" if close else f"the verdicts are {', '.join(ids)}"
    return f"there is no verdict {sanitise(name, 64)}; {hint}"


def listed(names: Iterable[str]) -> str:
    """The first few of some names, each once."""
    each = [sanitise(name, 100) for name in dict.fromkeys(names)]
    more = f" and {len(each) - MAX_LISTED_NAMES} more" if len(each) > MAX_LISTED_NAMES else ""
    return f"{', '.join(each[:MAX_LISTED_NAMES])}{more}"


def after_dashes(words: Sequence[str]) -> str:
    """The error if a command was given without `--`."""
    return f"a command goes after --: mcpproxy doctor -- {sanitise(shlex.join(words), 1000)}"


def _sign(diagnosis: Diagnosis) -> str:
    return "✗" if diagnosis.verdict.fails else "·"


def _details(diagnosis: Diagnosis, width: int) -> Iterator[str]:
    verdict = diagnosis.verdict
    yield f"  {_sign(diagnosis)} {verdict.id}: {verdict.title()}"
    needs_step = verdict.fails or verdict.leaves_unexamined
    advice = diagnosis.advice or (verdict.first_step() if needs_step else "")
    for text in (diagnosis.evidence, *([f"→ {advice}"] if advice else [])):
        yield from (f"    {line}" for line in wrapped(sanitise(text, 1000), width - 4))


def _times(result: Result) -> str:
    """When each step was done. All times are from the start, so each says "after": durations would seem to add up."""
    # A server without tools is not asked for their list; its time is then the time of `initialize`.
    steps = {name: ms for name, ms in result.timings_ms.items() if name != "tools_list" or result.tools is not None}
    return ", ".join(f"{_STEPS[name]} after {duration(nanoseconds(ms))}" for name, ms in steps.items())
