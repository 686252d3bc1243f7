"""Renews the list of endpoints in a page: `python -m nsqlake.apps.http_api_page docs/http-api.md`."""

import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from urllib.parse import quote

import uvloop

from nsqlake.nsqd.daemon import Daemon
from nsqlake.nsqd.http.endpoints import Endpoint, Parameter, Reply
from nsqlake.nsqd.http.failures import CODES
from nsqlake.nsqd.options import NsqdOptions, validate
from nsqlake.runtime.option_docs import replace_generated

BASE = "http://127.0.0.1:4151"


def served_endpoints() -> list[Endpoint]:
    """Those of a daemon with default options, deprecated ones left out."""

    async def ask(options: NsqdOptions) -> list[Endpoint]:
        daemon = Daemon(options)
        await daemon.start()
        try:
            return [endpoint for endpoint in daemon.api.endpoints if not endpoint.deprecated]
        finally:
            await daemon.stop()

    with (
        tempfile.TemporaryDirectory(prefix="nsqd-") as path,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        options = NsqdOptions(
            data_path=path, tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", https_address=""
        )
        return runner.run(ask(validate(options)))


def endpoint_list(endpoints: Sequence[Endpoint]) -> str:
    """Every endpoint with an example, by tag in the order of their first appearance."""
    tags = list(dict.fromkeys(endpoint.tag for endpoint in endpoints))
    ordered = sorted(endpoints, key=lambda endpoint: tags.index(endpoint.tag))
    parts = []
    for tag, group in groupby(ordered, key=lambda endpoint: endpoint.tag):
        parts.append(f"## {tag.capitalize()}\n")
        parts += [_section(endpoint) for endpoint in group]
    return "\n".join(parts)


def _section(endpoint: Endpoint) -> str:
    lines = [
        f"### {endpoint.method} {endpoint.path}",
        "",
        f"{endpoint.summary}. {endpoint.description}".strip(),
    ]
    if endpoint.aliases:
        lines[-1] += f" Deprecated: {', '.join(f'`{path}`' for path in endpoint.aliases)}."
    if endpoint.parameters:
        lines += ["", "| parameter | meaning |", "|---|---|"]
        lines += [_parameter_row(parameter) for parameter in endpoint.parameters]
    lines += ["", f"Needs {endpoint.access.value}. {_answers(endpoint)}"]
    lines += ["", "```sh", _curl(endpoint), "```", ""]
    return "\n".join(lines)


def _parameter_row(parameter: Parameter) -> str:
    name = f"`{parameter.name}`" if parameter.required else f"[`{parameter.name}`]"
    meaning = parameter.description
    return f"| {name} | {meaning} |".replace("\n", " ")


def _answers(endpoint: Endpoint) -> str:
    parts = [_reply(status, reply) for status, reply in endpoint.replies.items()]
    named = [(status, code) for status, code in endpoint.errors if code not in CODES]
    unavailable = len(named) < len(endpoint.errors)
    if endpoint.body is not None:
        named.append(endpoint.too_big)
    by_status = {status: [code for each, code in named if each == status] for status, _ in named}
    for status, codes in sorted(by_status.items()):
        parts.append(f"{status} " + ", ".join(f"`{code}`" for code in dict.fromkeys(codes)))
    if unavailable:
        parts.append("503")
    return "Answers: " + "; ".join(parts) + "."


def _reply(status: int, reply: Reply) -> str:
    said = reply.description.rstrip(".")
    text = f"{status} {said[0].lower()}{said[1:]}" if not said[:2].isupper() else f"{status} {said}"
    if reply.example is not None and "json" in reply.content_type:
        text += f", `{json.dumps(reply.example, separators=(',', ':'))}`"
    return text


def _curl(endpoint: Endpoint) -> str:
    path, query = endpoint.path, []
    for parameter in endpoint.parameters:
        value = quote(parameter.example, safe=":,@-._#")
        if parameter.in_path:
            path = path.replace(f"{{{parameter.name}}}", value)
        elif parameter.required or parameter.in_example:
            query.append(f"{parameter.name}={value}")
    url = BASE + path + ("?" + "&".join(query) if query else "")
    words = ["curl"] if endpoint.method == "GET" else ["curl", "-X", endpoint.method]
    if endpoint.body is not None and endpoint.body.example is not None:
        example = endpoint.body.example
        words += ["--data-binary", _quoted(example if isinstance(example, str) else json.dumps(example))]
    return " ".join([*words, shlex.quote(url)])


def _quoted(text: str) -> str:
    return "$'" + text.replace("\n", "\\n") + "'" if "\n" in text else shlex.quote(text)


def renew(page: str) -> str:
    return replace_generated(page, "endpoints", endpoint_list(served_endpoints()))


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite each page named on the command line."""
    for path in sys.argv[1:] if argv is None else argv:
        with open(path, encoding="utf-8") as file:
            page = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(renew(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
