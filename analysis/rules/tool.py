"""The group `tool`: what a server says of its tools, and calls of them."""

from analysis.rules.tool_calls import (
    ArgumentsInvalid,
    Failed,
    ResourceWithoutCapability,
    StructuredInvalid,
    StructuredMissing,
    StructuredNotMirrored,
    StructuredNotObject,
    StructuredWithoutSchema,
    Unlisted,
)
from analysis.rules.tool_lists import (
    DuplicateName,
    InputSchemaNotObject,
    ListOrder,
    Name,
    OutputSchemaNotObject,
    SchemaDialect,
    SchemaInvalid,
)
from analysis.rules.tool_repeats import RepeatedCall
from analysis.rules.tool_schemas import (
    HeaderAnnotation,
    HeaderAnnotationCalled,
    HeaderAnnotationSensitive,
    SchemaExternalRef,
)

__all__ = [
    "ArgumentsInvalid",
    "DuplicateName",
    "Failed",
    "HeaderAnnotation",
    "HeaderAnnotationCalled",
    "HeaderAnnotationSensitive",
    "InputSchemaNotObject",
    "ListOrder",
    "Name",
    "OutputSchemaNotObject",
    "RepeatedCall",
    "ResourceWithoutCapability",
    "SchemaDialect",
    "SchemaExternalRef",
    "SchemaInvalid",
    "StructuredInvalid",
    "StructuredMissing",
    "StructuredNotMirrored",
    "StructuredNotObject",
    "StructuredWithoutSchema",
    "Unlisted",
]
