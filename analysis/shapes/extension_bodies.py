"""Finds the problems in bodies that extensions define, and in objects that they add to bodies of the core.

There are no official types for them, so a single pass over the shape finds everything: missing members, wrong types,
constants, ranges and formats.
"""

from typing import Any, Final

from analysis.conversation.call import MessageContext
from analysis.conversation.message import MISSING, Notification, Number, Response
from analysis.protocol.extensions import Extension
from analysis.shapes.body_table import object_shape
from analysis.shapes.extension_table import object_key_of
from analysis.shapes.shape import (
    Alternatives,
    BodyPath,
    Json,
    List,
    Map,
    Object,
    Problem,
    ProblemCollector,
    Scalar,
    Shape,
    name_of,
)

_USUAL_RESULT: Final = "complete"


def extension_problems(extension: Extension, context: MessageContext) -> list[Problem]:
    """The problems in the body of a message of an extension, in the order of its shape; none if it is not judged."""
    message = context.message
    is_result = isinstance(message, Response)
    part = "result" if is_result else "notification" if isinstance(message, Notification) else "params"
    key = object_key_of(extension, f"{part} {context.method}")
    if key is None:
        return []
    value = context.body.get("result" if is_result else "params", MISSING)
    if value is MISSING and not is_result:
        value = {}
    if is_result and isinstance(value, dict) and value.get("resultType", _USUAL_RESULT) != _USUAL_RESULT:
        return []
    return object_problems(key, value, "result" if is_result else "params") if isinstance(value, dict) else []


def object_problems(key: str, value: object, place: str) -> list[Problem]:
    """The problems in a value that must be an object of an extension.

    Args:
        key: the key of the object in the table of its extension, such as `skills/Skill`.
        value: the value.
        place: the steps of the JSON Pointer to it, without the slash at the start: `result/tools/0/_meta/ui`.
    """
    collector = ProblemCollector(place)
    _collect(object_shape(key), value, None, collector)
    return collector.problems


def _collect(shape: Shape | None, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
    if shape is None or isinstance(shape, Json) or shape.certainly_fits(value):
        return
    if isinstance(shape, Object) and isinstance(value, dict):
        _collect_members(shape, value, path, collector)
    elif isinstance(shape, List) and isinstance(value, list):
        _collect_items(shape.item, enumerate(value), path, collector)
    elif isinstance(shape, Map) and isinstance(value, dict):
        _collect_items(shape.item, value.items(), path, collector)
    elif isinstance(shape, Alternatives) and isinstance(value, dict | list) and (arm := shape.arm_for(value)):
        _collect(arm, value, path, collector)
    elif isinstance(shape, Alternatives) and isinstance(value, dict):
        shape.collect_problems(value, path, collector)  # no arm has its tag
    elif isinstance(shape, Scalar):
        _collect_scalar(shape, value, path, collector)
    else:
        collector.report(path, f"{name_of(path)} should be {shape.words}", "shape")


def _collect_members(shape: Object, value: dict[str, Any], path: BodyPath, collector: ProblemCollector) -> None:
    for name, member in shape.members.items():
        inner = value.get(name, MISSING)
        if inner is MISSING:
            if name in shape.required and not member.is_reported_by_rules:
                collector.report((path, name), f"{name} is missing", "shape")
        elif inner is None and member.is_optional:
            collector.report((path, name), f"{name} is null: omit it instead", "null")
        elif type(inner) not in member.plain:
            _collect(member.shape, inner, (path, name), collector)


def _collect_items(shape: Shape | None, items: Any, path: BodyPath, collector: ProblemCollector) -> None:
    for step, item in items:
        collector.remaining_items -= 1
        if collector.remaining_items < 0:
            return
        _collect(shape, item, (path, step), collector)


def _collect_scalar(shape: Scalar, value: Any, path: BodyPath, collector: ProblemCollector) -> None:
    if isinstance(value, Number):
        return  # beyond the precision of a float, so neither its range nor whether it is whole can be seen
    is_whole = int in shape.types and isinstance(value, float) and value.is_integer()
    if type(value) in shape.exact or is_whole:
        count_before = len(collector.problems)
        shape.collect_problems(value, path, collector)
        is_out_of_range = not isinstance(value, str) and not shape.low <= value <= shape.high
        if is_out_of_range and len(collector.problems) == count_before:
            collector.report(path, f"{name_of(path)} is out of its range", "shape")
    else:
        collector.report(path, f"{name_of(path)} should be {shape.words}", "shape")
