import pytest

from nsqlake.cluster.addresses import HttpAddress, parse_http_address
from nsqlake.cluster.errors import AddressError


def parse(text: str) -> HttpAddress:
    return parse_http_address(text, default_port=4161)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("lookup1:4161", "http://lookup1:4161/lookup?topic=t"),
        ("lookup1", "http://lookup1:4161/lookup?topic=t"),
        ("http://lookup1", "http://lookup1:80/lookup?topic=t"),
        ("https://lookup1", "https://lookup1:443/lookup?topic=t"),
        ("https://lookup1:8443/", "https://lookup1:8443/lookup?topic=t"),
        ("http://h:1/some/path?x=y", "http://h:1/some/path?x=y&topic=t"),
        ("h:1/some/path", "http://h:1/some/path?topic=t"),
        ("[::1]:4161", "http://[::1]:4161/lookup?topic=t"),
        ("[::1]", "http://[::1]:4161/lookup?topic=t"),
        ("http://user:pass%40word@h:1", "http://h:1/lookup?topic=t"),
    ],
)
def test_address_becomes_the_url_that_is_asked(text: str, url: str) -> None:
    assert parse(text).url("/lookup", {"topic": "t"}) == url


def test_other_questions_are_asked_beside_the_path_that_was_given() -> None:
    assert parse("http://h:1/nsq/lookup").url("/topics") == "http://h:1/nsq/topics"
    assert parse("http://h:1/find").url("/topic/create") == "http://h:1/topic/create"
    assert parse("h:1").url("/nodes") == "http://h:1/nodes"


def test_names_are_quoted() -> None:
    assert parse("h:1").url("/lookup", {"topic": "a#ephemeral"}) == "http://h:1/lookup?topic=a%23ephemeral"


def test_user_and_password_are_unquoted() -> None:
    address = parse("http://us%3Aer:pass%40word@h:1")

    assert (address.user, address.password) == ("us:er", "pass@word")


def test_what_may_be_secret_is_not_shown() -> None:
    address = parse("http://user:hidden@h:1/p?key=hidden")

    for shown in (str(address), repr(address), address.shown_url("/lookup", {"topic": "t"})):
        assert "hidden" not in shown
    assert address.shown_url("/lookup", {"topic": "t"}) == "http://h:1/p?topic=t"


def test_two_spellings_of_one_server_are_equal() -> None:
    spellings = ["LookUp1:4161", "lookup1", "http://lookup1:4161", "HTTP://lookup1:4161/"]

    assert len({parse(text) for text in spellings}) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing host"),
        (":4161", "missing host"),
        ("http://", "missing host"),
        ("ftp://h:1", "the scheme must be http or https"),
        ("h:port", "invalid host or port"),
        ("h:70000", "invalid host or port"),
        ("h:0", "invalid port"),
        ("[::1:4161", "invalid host or port"),
        ("a b:1", "has characters that no address has"),
        ("a\n:1", "has characters that no address has"),
        ("h\x00:1", "has characters that no address has"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse(text)

    assert caught.value.reason == reason


def test_refusal_does_not_show_the_password() -> None:
    with pytest.raises(AddressError) as caught:
        parse("http://user:hidden@h:port")

    assert str(caught.value) == "h:port: invalid host or port"
