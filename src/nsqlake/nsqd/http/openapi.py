"""`/openapi.json`: the API described for programs, derived from the table of endpoints."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nsqlake import __version__
from nsqlake.nsqd.http import answers
from nsqlake.nsqd.http.endpoints import JSON, Access, Endpoint, Kind, Parameter, Reply, RequestBody
from nsqlake.nsqd.http.schemas import components, ref
from nsqlake.nsqd.http.services import Services
from nsqlake.nsqd.stats.info import Info
from nsqlake.nsqd.stats.values import Stats
from nsqlake.runtime.http import Request, Response, json_response
from nsqlake.wire.names import MAX_NAME_LENGTH

__all__ = ["describe", "endpoints"]

Json = dict[str, Any]

_ANSWERS: tuple[type[msgspec.Struct], ...] = (
    Stats,
    Info,
    *(getattr(answers, name) for name in answers.__all__),
)
_ABOUT = (
    "NSQ's HTTP API and what goes beyond it. An error is JSON with `message`, a code, and often `reason`, "
    "a text. "
    "Parameters are those of the query only. What is marked as deprecated are names from NSQ 0.x."
)
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A secret that the auth server knows."},
    "basic": {"type": "http", "scheme": "basic", "description": "The same secret as password, any user."},
}
# Without an auth server, or with --http-auth=off, nobody has to say who they are.
_MAY_IDENTIFY: list[Json] = [{"bearer": []}, {"basic": []}, {}]
_TYPES: Mapping[Kind, Json] = {
    Kind.TEXT: {"type": "string"},
    Kind.NAME: {
        "type": "string",
        "pattern": "^[.a-zA-Z0-9_-]+(#ephemeral)?$",
        "minLength": 1,
        "maxLength": MAX_NAME_LENGTH,
    },
    Kind.INTEGER: {"type": "integer", "format": "int64"},
    Kind.FLAG: {"type": "string", "enum": ["true", "1", "false", "0"]},
}
_ANYWHERE = ((400, "INVALID_REQUEST"), (500, "INTERNAL_ERROR"), (503, "TIMEOUT"))
_WITH_CREDENTIALS = (
    (401, "UNAUTHORIZED"),
    (403, "FORBIDDEN"),
    (429, "TOO_MANY_FAILURES"),
    (503, "AUTH_UNAVAILABLE"),
)
_OVER_HTTP = ((403, "TLS_REQUIRED"),)


def describe(rows: Iterable[Endpoint]) -> Json:
    """The OpenAPI document of these endpoints."""
    paths: dict[str, Json] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "nsqd", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": components(_ANSWERS), "securitySchemes": _SECURITY},
    }


def _operation(row: Endpoint) -> Json:
    operation: Json = {
        "operationId": f"{row.method.lower()}{row.path}",
        "tags": [row.tag],
        "summary": row.summary,
        "parameters": [_parameter(parameter) for parameter in row.parameters],
        "responses": _responses(row),
        "security": [] if row.access is Access.OPEN else _MAY_IDENTIFY,
    }
    if row.description:
        operation["description"] = row.description
    if row.body is not None:
        operation["requestBody"] = _body(row.body)
    if row.deprecated:
        operation["deprecated"] = True
    return operation


def _parameter(parameter: Parameter) -> Json:
    schema = {**_TYPES[parameter.kind]}
    described: Json = {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.required,
        "description": parameter.description,
        "schema": schema,
    }
    if parameter.example:
        is_number = parameter.kind is Kind.INTEGER
        described["example"] = int(parameter.example) if is_number else parameter.example
    return described


def _body(body: RequestBody) -> Json:
    schema = {"type": "string", "format": "binary", "maxLength": body.max_bytes}
    content: Json = {"schema": schema}
    if body.example is not None:
        content["example"] = body.example
    return {
        "required": body.required,
        "description": body.description,
        "content": {_media_type(body.content_type): content},
    }


def _responses(row: Endpoint) -> Json:
    responses: dict[int, Json] = {status: _reply(reply) for status, reply in row.replies.items()}
    with_credentials = () if row.access is Access.OPEN else _WITH_CREDENTIALS
    errors = [*row.errors, row.too_big, *_ANYWHERE, *with_credentials, *_OVER_HTTP]
    for status in sorted({status for status, _ in errors}):
        codes = list(dict.fromkeys(code for each, code in errors if each == status))
        response = responses.setdefault(status, {"description": ", ".join(codes)})
        response.setdefault("content", {})["application/json"] = {"schema": _error(codes)}
    return {str(status): response for status, response in sorted(responses.items())}


def _error(codes: list[str]) -> Json:
    return {"allOf": [ref(answers.ErrorAnswer), {"properties": {"message": {"enum": codes}}}]}


def _reply(reply: Reply) -> Json:
    described: Json = {"description": reply.description}
    if reply.content_type:
        main: Json = {"schema": reply.schema or {}}
        if reply.example is not None:
            main["example"] = reply.example
        others = {_media_type(kind): {"schema": schema} for kind, schema in reply.also.items()}
        described["content"] = {_media_type(reply.content_type): main, **others}
    if reply.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in reply.headers.items()
        }
    return described


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0]


def endpoints(services: Services) -> list[Endpoint]:
    answer: list[Response] = []

    def serve(request: Request) -> Response:
        if not answer:
            answer.append(json_response(describe(services.endpoints)))
        return answer[0]

    return [
        Endpoint(
            method="GET",
            path="/openapi.json",
            handler=serve,
            access=Access.OPEN,
            tag="node",
            summary="This API, described for programs",
            replies={200: Reply(description="OpenAPI 3.1.", content_type=JSON, schema={"type": "object"})},
        )
    ]
