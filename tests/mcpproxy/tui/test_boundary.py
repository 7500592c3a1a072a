"""Foreign text reaches a widget only through `safe_text.py`; the sources are searched for other ways."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TUI = ROOT / "mcpproxy/tui"
SOURCES = sorted(path for path in TUI.rglob("*.py") if path.name != "safe_text.py")

DRAWING = {"textual.content", "textual.markup", "textual.visual"}
"""Modules that create what is drawn."""
WIDGETS = {
    "Button",
    "Checkbox",
    "Collapsible",
    "DataTable",
    "Digits",
    "Header",
    "Label",
    "Link",
    "ListItem",
    "ListView",
    "Log",
    "Markdown",
    "MarkdownViewer",
    "OptionList",
    "Placeholder",
    "Pretty",
    "RadioButton",
    "RichLog",
    "Select",
    "SelectionList",
    "Static",
    "Tab",
    "Tabs",
    "TextArea",
    "Tooltip",
    "Tree",
}
"""Widgets that interpret markup, or pass control characters on."""
CALLS = {"from_markup", "from_text", "notify", "render_markup", "to_content", "bell", "open_url", "copy_to_clipboard"}
TITLES = {"border_title", "border_subtitle", "tooltip", "title", "sub_title", "loading_message"}


SANITISING = {("widgets/editor.py", "imports TextArea")}
"""A widget that passes control characters on is allowed if each way to set its text is overridden to sanitise it."""
PASSING_ON = {("drawn_cells.py", "imports rich.color"), ("drawn_cells.py", "imports rich.console")}
"""A module may use types of Rich if it only passes on what Textual has drawn."""

COLOURS = (("rich.style", {"Style"}), ("rich.color", {"ColorSystem"}))
"""What may be imported of Rich: it colours text, but does not draw any."""


def leaks(tree: ast.AST) -> Iterator[str]:
    """Code that draws text, or could, without going through the boundary."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
            if named in CALLS and (owner or named != "notify"):
                yield f"calls {named}"
            if named in ("Static", "Label", "Segment", "Content", "Text", "Strip"):
                yield f"makes a {named}"
            if named == "update" and owner and not owner.endswith(("made", "continued", "_groups")):
                yield "updates a widget"
            yield from (
                "reads markup"
                for keyword in node.keywords
                if keyword.arg == "markup" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            )
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and target.attr in TITLES:
                    yield f"sets {target.attr}"
        elif isinstance(node, ast.FunctionDef) and node.name in ("render", "__rich__", "__rich_console__", "visualize"):
            yield f"defines {node.name}"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"imports {name.name}" for name in node.names if name.name.partition(".")[0] in ("rich", "textual"))
        return
    module = node.module or ""
    names = {name.name for name in node.names}
    if module == "textual.widgets" or module.startswith("textual.widgets."):
        yield from (f"imports {name}" for name in sorted(names & WIDGETS))
    elif module in DRAWING or (module.split(".")[0] == "rich" and (module, names) not in COLOURS):
        yield f"imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TUI)))
def test_text_is_drawn_through_the_boundary_alone(path: Path) -> None:
    found = list(leaks(ast.parse(path.read_bytes())))
    assert [leak for leak in found if (str(path.relative_to(TUI)), leak) not in SANITISING | PASSING_ON] == []


@pytest.mark.parametrize(
    "text",
    [
        "from rich.text import Text",
        "import rich",
        "from textual.content import Content",
        "from textual.widgets import Static",
        "from textual.widgets import Footer, DataTable",
        "Static(payload)",
        "Label('x')",
        "widget.update(payload)",
        "SafeText(markup=True)",
        "SafeText(markup=flag)",
        "Text.from_markup(payload)",
        "self.notify(payload)",
        "self.app.notify('x')",
        "self.border_title = payload",
        "table.tooltip = payload",
        "self.sub_title += payload",
        "app.copy_to_clipboard(payload)",
        "app.open_url(payload)",
        "def render(self): ...",
    ],
)
def test_the_check_itself_finds_what_it_looks_for(text: str) -> None:
    assert list(leaks(ast.parse(text))) != []


def test_the_boundary_reads_no_markup_either() -> None:
    tree = ast.parse((TUI / "safe_text.py").read_bytes())
    assert [leak for leak in leaks(tree) if leak in ("reads markup", "calls from_markup", "calls render_markup")] == []
    (notified,) = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "app.notify"
    )
    assert {keyword.arg: ast.unparse(keyword.value) for keyword in notified.keywords}["markup"] == "False"
    # Every `Content` and `Segment` is made of text that was sanitised in the same call, or is mcpproxy's own.
    made = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Segment", "Content")
    ]
    assert {ast.unparse(node.args[0]) for node in made} == {"text", "' ' * cells_left", "'\\n'"}
