"""Code spans: text of pages whose code is between backticks, as in Markdown, with the code in a colour instead."""

from collections.abc import Iterable, Sequence

from mcpproxy.wording.spans import Role, Span


def code_lines(lines: Iterable[Sequence[Span]], role: Role = "accent") -> list[list[Span]]:
    """Returns lines of our own pages with code in the colour of `role`, without its backticks.

    Code may continue on the next line; an empty line ends it.
    """
    coloured_lines: list[list[Span]] = []
    is_code = False
    for line in lines:
        coloured_line: list[Span] = []
        for span in line:
            for number, part in enumerate(span.text.split("`")):
                is_code ^= number > 0
                coloured_line += [Span(part, role if is_code else span.role)] if part else []
        coloured_lines.append(coloured_line)
        is_code = is_code and bool(line)
    return coloured_lines
