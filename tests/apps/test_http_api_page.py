from pathlib import Path

import pytest

from nsqlake.apps.http_api_page import endpoint_list, main, renew
from nsqlake.nsqd.access import Access
from nsqlake.nsqd.http.endpoints import JSON, TOPIC, Endpoint, Parameter, Reply, RequestBody
from nsqlake.nsqd.http.selection import ID
from nsqlake.runtime.http import Response

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"


def test_the_page_shows_the_endpoints_that_nsqd_has() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == renew(page), "run: python -m nsqlake.apps.http_api_page docs/http-api.md"


def test_the_command_renews_the_list_and_nothing_else(tmp_path: Path) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(
        "before\n<!-- generated: endpoints -->\nold\n<!-- end: endpoints -->\nafter\n", encoding="utf-8"
    )

    code = main([str(copy)])

    text = copy.read_text(encoding="utf-8")
    assert code == 0
    assert text.startswith("before\n<!-- generated: endpoints -->\n\n## Publish\n\n### POST /pub\n")
    assert text.endswith("\n<!-- end: endpoints -->\nafter\n")
    assert "old\n" not in text


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_endpoint_is_shown_with_all_that_the_table_knows(method: str) -> None:
    key = Parameter(name="key", in_path=True, required=True, example="a b", description="Which.")
    row = Endpoint(
        method=method,
        path="/thing/{key}",
        handler=lambda _: Response(),
        access=Access.ADMIN,
        tag="things",
        summary="Change a thing",
        parameters=(key, TOPIC, Parameter(name="more", description="Or more."), ID),
        body=RequestBody(description="It.", max_bytes=1, example="x\ny"),
        replies={200: Reply(description="Done.", content_type=JSON, example={"a": 1})},
        errors=((404, "GONE"), (400, "BAD"), (503, "EXITING")),
        aliases=("/old",),
    )

    text = endpoint_list([row])

    assert f"## Things\n\n### {method} /thing/{{key}}\n\nChange a thing. Deprecated: `/old`.\n" in text
    assert "| `key` | Which. |\n" in text
    assert "| [`more`] | Or more. |\n" in text
    assert 'Answers: 200 done, `{"a":1}`; 400 `BAD`; 404 `GONE`; 413 `BODY_TOO_BIG`; 503.\n' in text
    ask = "" if method == "GET" else " -X PUT"
    url = "http://127.0.0.1:4151/thing/a%20b?topic=orders&id=0a1b2c3d4e5f6071"
    assert f"curl{ask} --data-binary $'x\\ny' '{url}'\n" in text
