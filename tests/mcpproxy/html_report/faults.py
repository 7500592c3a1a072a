"""What axe-core finds on an open page."""

from importlib.resources import files

import orjson

from tests.mcpproxy.html_report.browser import Opened


def faults(report: Opened) -> list[str]:
    """Returns what axe-core finds: the rule, its title, and the element."""
    report.run(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8") + ";0")
    answer = orjson.loads(report.run("axe.run().then((found) => JSON.stringify(found.violations))"))
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in answer for node in one["nodes"]]
