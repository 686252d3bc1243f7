"""docs/client.md tells all of the client library, as it is."""

import dataclasses
import re

import nsqlake
import nsqlake.client
from nsqlake.client import ClientConfig, ConsumerHooks, ProducerHooks
from nsqlake.client.producer.node_choice import Strategy
from tests.architecture.source import ROOT

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
OPTION_ROW = re.compile(r"^\| `(\w+)` \| `([^`]*)` \|", re.MULTILINE)


def shown(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    text = repr(default).replace("'", '"')
    return text.replace(nsqlake.__version__, "VERSION")


def test_the_table_of_options_is_that_of_the_configuration() -> None:
    options = PAGE.partition("## Options")[2].partition("\n## ")[0]

    rows = OPTION_ROW.findall(options)

    assert rows == [(field.name, shown(field.default)) for field in dataclasses.fields(ClientConfig)]


def test_every_public_name_is_on_the_page() -> None:
    names = [*nsqlake.client.__all__, *Strategy]

    assert [name for name in names if not re.search(rf"\b{name}\b", PAGE)] == []


def test_every_hook_is_in_its_table() -> None:
    consumers, producers = PAGE.split("| of `ProducerHooks` |")

    for hooks, part in ((ConsumerHooks, consumers), (ProducerHooks, producers)):
        assert [field.name for field in dataclasses.fields(hooks) if f"`{field.name}`" not in part] == []
