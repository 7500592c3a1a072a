"""Edits YAML text in place, at the positions that PyYAML records in the nodes it parses.

Libraries that write YAML reformat the file, so none is used for writing.
"""

from __future__ import annotations

import json
import re
from typing import Final

import yaml

from mcpproxy.clients.documents.editable_text import EditableText
from mcpproxy.clients.documents.edits import (
    AddMember,
    ConfigError,
    DropFirstItems,
    Item,
    MovedValue,
    Path,
    PrependItems,
)
from mcpproxy.clients.documents.splice import Span, Splices, insert_line, line_break, line_end, line_span, line_start

MAX_NODES: Final = 1_000_000
"""The maximum number of values in a file, with each alias expanded, because a few lines can expand to billions of
values.
"""

_UNQUOTED_WORD: Final = re.compile(r"[A-Za-z0-9/_](?:[\w./@+:?=&%~-]*[\w/])?", re.ASCII)
_UNSAFE_IN_FLOW: Final = frozenset(",[]{}?#:\"'\n")


class YamlText(EditableText):
    """A YAML file."""

    COMMENT_MARKS = ("#",)

    def __init__(self, text: str) -> None:
        """Parse a file.

        Raises:
            ConfigError: it is not YAML, or not exactly one document.
        """
        try:
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
            if self._root is not None and _expanded_size(self._root, {}) > MAX_NODES:
                raise ConfigError(f"its aliases stand for more than {MAX_NODES:,} values")
            self.data = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise ConfigError(f"{place}{error.problem or 'this is not YAML'}") from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"this is not YAML that can be read: {' '.join(str(error).split())}") from None
        self.text = text
        self._shared_ids = _shared_node_ids(self._root)

    def _prepend_items(self, edit: PrependItems, splices: Splices) -> None:
        node = self._sequence_node(edit.path)
        if node.flow_style:
            super()._prepend_items(edit, splices)
            return
        words = [self._scalar_text(item, flow=False) for item in edit.items]
        item_start = node.value[0].start_mark.index
        start = line_start(self.text, item_start)
        indented_dash = self.text[start:item_start]
        if indented_dash.strip() != "-":
            raise ConfigError(f"the list {edit.path[-1]!r} begins on the line of its name")
        splices.insert(start, "".join(f"{indented_dash}{word}{line_break(self.text)}" for word in words))

    def _drop_items(self, edit: DropFirstItems, splices: Splices) -> None:
        node = self._sequence_node(edit.path)
        if node.flow_style:
            super()._drop_items(edit, splices)
            return
        for item in node.value[: edit.count]:
            splices.replace(self._block_item_span(item), "")
        if edit.count >= len(node.value):
            key = self._key_node(edit.path)
            after_colon = self.text.index(":", key.end_mark.index) + 1
            splices.insert(after_colon, " []")

    def _block_item_span(self, item: yaml.Node) -> Span:
        start, end = _node_span(item)
        line_begin = line_start(self.text, start)
        if (
            self.text[line_begin:start].strip() != "-"
            or not isinstance(item, yaml.ScalarNode)
            or item.style in ("|", ">")
        ):
            raise ConfigError("an item of the list is written in a form that cannot be taken out")
        return line_begin, line_end(self.text, end)

    def _add_member(self, edit: AddMember, splices: Splices) -> None:
        _, end = self._value_span(edit.after)
        value = self._value_text(edit.value, edit.after)
        if self._is_in_flow(edit.after):
            splices.insert(end, f", {edit.key}: {value}")
            return
        column = self._key_node(edit.after).start_mark.column
        insert_line(splices, line_end(self.text, end), f"{' ' * column}{edit.key}: {value}")

    def _remove_member(self, path: Path, splices: Splices) -> None:
        key, node = self._key_node(path), self._node_at(path)
        if self._is_in_flow(path):
            comma = self.text.rfind(",", 0, key.start_mark.index)
            splices.replace((comma, node.end_mark.index), "")
            return
        start = line_start(self.text, key.start_mark.index)
        if self.text[start : key.start_mark.index].strip():
            raise ConfigError(f"{path[-1]!r} shares its line with something else")
        splices.replace(line_span(self.text, (key.start_mark.index, _node_end(node))), "")

    def _node_at(self, path: Path) -> yaml.Node:
        node = self._root
        for key in path:
            if isinstance(node, yaml.MappingNode):
                node = _member_nodes(node, key)[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                node = node.value[key]
            else:
                raise TypeError(key)
            if id(node) in self._shared_ids:
                raise ConfigError(f"{key!r} is an alias, so an edit would change other places, too")
        assert node is not None
        return node

    def _key_node(self, path: Path) -> yaml.Node:
        parent = self._node_at(path[:-1])
        if not isinstance(parent, yaml.MappingNode):
            raise TypeError(path[-1])
        return _member_nodes(parent, path[-1])[0]

    def _key_span(self, path: Path) -> Span:
        return _node_span(self._key_node(path))

    def _value_span(self, path: Path) -> Span:
        node = self._node_at(path)
        if not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            raise ConfigError(f"{path[-1]!r} is written as a block of text")
        return _node_span(node)

    def _list_spans(self, path: Path) -> tuple[Span, list[Span]]:
        node = self._sequence_node(path)
        return _node_span(node), [_node_span(item) for item in node.value]

    def _sequence_node(self, path: Path) -> yaml.SequenceNode:
        node = self._node_at(path)
        if not isinstance(node, yaml.SequenceNode):
            raise TypeError(path[-1])
        return node

    def _is_in_flow(self, path: Path) -> bool:
        """Returns whether a value is written inside brackets."""
        node = self._root
        for key in path:
            if isinstance(node, yaml.CollectionNode) and node.flow_style:
                return True
            node = _member_nodes(node, key)[1] if isinstance(node, yaml.MappingNode) else node.value[key]  # type: ignore[union-attr]
        return False

    def _word_text(self, item: Item) -> str:
        return self._scalar_text(item, flow=True)

    def _word_text_at(self, item: Item, position: Path) -> str:
        return self._scalar_text(item, flow=self._is_in_flow(position))

    def _scalar_text(self, item: Item, *, flow: bool) -> str:
        if isinstance(item, MovedValue):
            node = self._node_at(item.path)
            source = self.text[slice(*_node_span(node))]
            is_quoted = isinstance(node, yaml.ScalarNode) and node.style in ('"', "'")
            if is_quoted and "\n" not in source:
                return source
            if isinstance(node, yaml.ScalarNode) and node.style is None and not (flow and _UNSAFE_IN_FLOW & {*source}):
                return source
            item = str(node.value)
        if _UNQUOTED_WORD.fullmatch(item) and yaml.safe_load(item) == item:
            return item
        return json.dumps(item)


def _member_nodes(node: yaml.MappingNode, key: str | int) -> tuple[yaml.Node, yaml.Node]:
    for name, value in reversed(node.value):
        if isinstance(name, yaml.ScalarNode) and name.value == str(key):
            return name, value
    raise LookupError(key)


def _node_span(node: yaml.Node) -> Span:
    return node.start_mark.index, node.end_mark.index


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
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
    sizes[id(node)] = 1 + sum(_expanded_size(part, sizes) for part in children)
    return sizes[id(node)]


def _shared_node_ids(top: yaml.Node | None) -> set[int]:
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


def _node_end(node: yaml.Node) -> int:
    """Returns the end of a node; PyYAML's end mark for a block of items or members is the start of the next node."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last_child = node.value[-1]
        return _node_end(last_child[1] if isinstance(last_child, tuple) else last_child)
    return int(node.end_mark.index)
