import pytest

from nsqlake.apps.nsq_to_http.headers import parse_headers
from nsqlake.runtime.errors import ConfigurationError


def test_a_header_is_a_name_and_a_value() -> None:
    assert parse_headers(["X-A: b c", "User-Agent:mine", "x-a: d:e"]) == {"x-a": "d:e", "user-agent": "mine"}


@pytest.mark.parametrize("text", ["abc", "abc:", ":abc", "a: ", ""])
def test_a_header_with_an_empty_side_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_headers([text])

    assert str(caught.value) == "--header value format should be 'key: value'"


@pytest.mark.parametrize("text", ["a b: c", "a: b\r\nx: y", "a\nb: c", "ä: b"])
def test_what_http_does_not_allow_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="does not allow"):
        parse_headers([text])
