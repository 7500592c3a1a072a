"""Edits YAML text in place, at the positions that PyYAML records in the nodes it parses.

Libraries that write YAML reformat the file, so none is used for writing.
"""

from __future__ import annotations

import json
import re
from typing import Final

import yaml

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import AddMember, ConfigError, DropHead, Item, Moved, Path, Prepend
from mcpproxy.clients.documents.splice import Span, Splices, insert_line, line_end, line_start, newline_of, whole_lines

MAX_NODES: Final = 1_000_000
"""The maximum number of values in a file, with each alias expanded, because a few lines can expand to billions of
values.
"""

_PLAIN: Final = re.compile(r"[A-Za-z0-9/_](?:[\w./@+:?=&%~-]*[\w/])?", re.ASCII)
_UNSAFE_IN_FLOW: Final = frozenset(",[]{}?#:\"'\n")


class YamlText(EditableText):
    """A YAML file."""

    COMMENTS = ("#",)

    def __init__(self, text: str) -> None:
        """Parses a file.

        Raises:
            ConfigError: it is not YAML, or not exactly one document.
        """
        try:
            self._top = yaml.compose(text, Loader=yaml.SafeLoader)
            if self._top is not None and _size(self._top, {}) > MAX_NODES:
                raise ConfigError(f"its aliases stand for more than {MAX_NODES:,} values")
            self.data = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise ConfigError(f"{place}{error.problem or 'this is not YAML'}") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"this is not YAML that can be read: {' '.join(str(error).split())}") from None
        self.text = text
        self._shared = _shared(self._top)

    def _prepend(self, edit: Prepend, splices: Splices) -> None:
        node = self._sequence(edit.path)
        if node.flow_style:
            super()._prepend(edit, splices)
            return
        words = [self._in_form(item, flow=False) for item in edit.items]
        item_start = node.value[0].start_mark.index
        start = line_start(self.text, item_start)
        indented_dash = self.text[start:item_start]
        if indented_dash.strip() != "-":
            raise ConfigError(f"the list {edit.path[-1]!r} begins on the line of its name")
        splices.insert(start, "".join(f"{indented_dash}{word}{newline_of(self.text)}" for word in words))

    def _drop(self, edit: DropHead, splices: Splices) -> None:
        node = self._sequence(edit.path)
        if node.flow_style:
            super()._drop(edit, splices)
            return
        for item in node.value[: edit.count]:
            splices.replace(self._block_item(item), "")
        if edit.count >= len(node.value):
            key = self._key(edit.path)
            after_colon = self.text.index(":", key.end_mark.index) + 1
            splices.insert(after_colon, " []")

    def _block_item(self, item: yaml.Node) -> Span:
        start, end = _span(item)
        line_begin = line_start(self.text, start)
        if (
            self.text[line_begin:start].strip() != "-"
            or not isinstance(item, yaml.ScalarNode)
            or item.style in ("|", ">")
        ):
            raise ConfigError("an item of the list is written in a form that cannot be taken out")
        return line_begin, line_end(self.text, end)

    def _add(self, edit: AddMember, splices: Splices) -> None:
        _, end = self._value_span(edit.after)
        value = self._written(edit.value, edit.after)
        if self._in_flow(edit.after):
            splices.insert(end, f", {edit.key}: {value}")
            return
        column = self._key(edit.after).start_mark.column
        insert_line(splices, line_end(self.text, end), f"{' ' * column}{edit.key}: {value}")

    def _remove(self, path: Path, splices: Splices) -> None:
        key, node = self._key(path), self._at(path)
        if self._in_flow(path):
            comma = self.text.rfind(",", 0, key.start_mark.index)
            splices.replace((comma, node.end_mark.index), "")
            return
        start = line_start(self.text, key.start_mark.index)
        if self.text[start : key.start_mark.index].strip():
            raise ConfigError(f"{path[-1]!r} shares its line with something else")
        splices.replace(whole_lines(self.text, (key.start_mark.index, _end(node))), "")

    def _at(self, path: Path) -> yaml.Node:
        node = self._top
        for key in path:
            if isinstance(node, yaml.MappingNode):
                node = _member(node, key)[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                node = node.value[key]
            else:
                raise TypeError(key)
            if id(node) in self._shared:
                raise ConfigError(f"{key!r} is an alias, so an edit would change other places, too")
        assert node is not None
        return node

    def _key(self, path: Path) -> yaml.Node:
        parent = self._at(path[:-1])
        if not isinstance(parent, yaml.MappingNode):
            raise TypeError(path[-1])
        return _member(parent, path[-1])[0]

    def _key_span(self, path: Path) -> Span:
        return _span(self._key(path))

    def _value_span(self, path: Path) -> Span:
        node = self._at(path)
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            raise ConfigError(f"{path[-1]!r} is written as a block of text")
        return _span(node)

    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        node = self._sequence(path)
        return _span(node), [_span(item) for item in node.value]

    def _sequence(self, path: Path) -> yaml.SequenceNode:
        node = self._at(path)
        if not isinstance(node, yaml.SequenceNode):
            raise TypeError(path[-1])
        return node

    def _in_flow(self, path: Path) -> bool:
        """Returns whether a value is written inside brackets."""
        node = self._top
        for key in path:
            if isinstance(node, yaml.CollectionNode) and node.flow_style:
                return True
            node = _member(node, key)[1] if isinstance(node, yaml.MappingNode) else node.value[key]  # type: ignore[union-attr]
        return False

    def _spelled(self, item: Item) -> str:
        return self._in_form(item, flow=True)

    def _spelled_at(self, item: Item, position: Path) -> str:
        return self._in_form(item, flow=self._in_flow(position))

    def _in_form(self, item: Item, *, flow: bool) -> str:
        if isinstance(item, Moved):
            node = self._at(item.path)
            source = self.text[slice(*_span(node))]
            is_quoted = isinstance(node, yaml.ScalarNode) and node.style in ('"', "'")
            if is_quoted and "\n" not in source:
                return source
            if isinstance(node, yaml.ScalarNode) and node.style is None and not (flow and _UNSAFE_IN_FLOW & {*source}):
                return source
            item = str(node.value)
        if _PLAIN.fullmatch(item) and yaml.safe_load(item) == item:
            return item
        return json.dumps(item)


def _member(node: yaml.MappingNode, key: str | int) -> tuple[yaml.Node, yaml.Node]:
    for name, value in reversed(node.value):
        if isinstance(name, yaml.ScalarNode) and name.value == str(key):
            return name, value
    raise LookupError(key)


def _span(node: yaml.Node) -> Span:
    return node.start_mark.index, node.end_mark.index


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Returns the number of values in a node, with its aliases expanded.

    Raises:
        ConfigError: the node contains itself.
    """
    known_size = sizes.get(id(node))
    if known_size == 0:
        raise ConfigError("an alias refers to its own container")
    if known_size is not None:
        return known_size
    sizes[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    sizes[id(node)] = 1 + sum(_size(part, sizes) for part in children)
    return sizes[id(node)]


def _shared(top: yaml.Node | None) -> set[int]:
    """Returns the ids of the nodes that occur in several places because of aliases."""
    seen_ids: set[int] = set()
    shared_ids: set[int] = set()
    pending_nodes = [top] if top is not None else []
    while pending_nodes:
        node = pending_nodes.pop()
        if id(node) in seen_ids:
            shared_ids.add(id(node))
            continue
        seen_ids.add(id(node))
        if isinstance(node, yaml.MappingNode):
            pending_nodes += [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            pending_nodes += node.value
    return shared_ids


def _end(node: yaml.Node) -> int:
    """Returns the end of a node; PyYAML's end mark for a block of items or members is the start of the next node."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last_child = node.value[-1]
        return _end(last_child[1] if isinstance(last_child, tuple) else last_child)
    return int(node.end_mark.index)
