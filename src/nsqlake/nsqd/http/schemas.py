"""JSON schemas of answers, made from the values they are encoded from."""

from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = ["REF_TEMPLATE", "components", "ref"]

REF_TEMPLATE = "#/components/schemas/{name}"


def ref(answer: type[msgspec.Struct]) -> dict[str, Any]:
    """A reference to the schema of `answer`, for a `Reply`."""
    return {"$ref": REF_TEMPLATE.format(name=answer.__name__)}


def components(answers: Iterable[type[msgspec.Struct]]) -> dict[str, Any]:
    """The schemas of these answers and of all they are made of, by name."""
    _, schemas = msgspec.json.schema_components(answers, ref_template=REF_TEMPLATE)
    return dict(sorted(schemas.items()))
