import pytest

from nsqlake.apps.nsq_to_nsq.go_json import NotJsonObjectError
from nsqlake.apps.nsq_to_nsq.json_step import JsonStep, MissingFieldError


def test_without_flags_any_bytes_pass_as_they_are() -> None:
    step = JsonStep("", "1", ())

    assert step.apply(b"no json") == b"no json"
    assert not step.is_needed


@pytest.mark.parametrize("body", [b'{ "a" : null }', b'{"a":1,"b":2}'])
def test_a_message_with_the_required_field_keeps_its_bytes(body: bytes) -> None:
    assert JsonStep("a", "", ()).apply(body) == body


@pytest.mark.parametrize("body", [b'{"b":1}', b"null", b"{}"])
def test_a_message_without_the_required_field_is_dropped(body: bytes) -> None:
    assert JsonStep("a", "", ()).apply(body) is None


@pytest.mark.parametrize("body", [b'{"a":"1"}', b'{"a":1}', b'{"a":1.0}'])
def test_the_required_value_is_that_text_or_that_number(body: bytes) -> None:
    assert JsonStep("a", "1", ()).apply(body) == body


@pytest.mark.parametrize("body", [b'{"a":"1.0"}', b'{"a":true}', b'{"a":null}', b'{"a":{}}', b'{"a":2}'])
def test_any_other_value_is_dropped(body: bytes) -> None:
    assert JsonStep("a", "1", ()).apply(body) is None


def test_a_text_is_required_and_the_field_is_a_number() -> None:
    assert JsonStep("a", "x", ()).apply(b'{"a":1}') is None


def test_a_required_value_without_its_field_is_an_error() -> None:
    with pytest.raises(MissingFieldError) as caught:
        JsonStep("a", "1", ()).apply(b'{"b":1}')

    assert str(caught.value) == "ERROR: missing field to check required value"


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b'{"c":3,"b":2,"a":1}', b'{"a":1,"c":3}'), (b'{"b":2}', b"{}"), (b"null", b"{}")],
)
def test_only_the_listed_fields_pass(body: bytes, expected: bytes) -> None:
    assert JsonStep("", "", ("c", "a")).apply(body) == expected


def test_filter_and_projection_together() -> None:
    step = JsonStep("a", "1", ("b",))

    assert step.apply(b'{"a":1,"b":[2]}') == b'{"b":[2]}'
    assert step.apply(b'{"a":2,"b":[2]}') is None


def test_what_is_no_object_is_told() -> None:
    with pytest.raises(NotJsonObjectError, match="a JSON array, not an object"):
        JsonStep("", "", ("a",)).apply(b"[1,2]")
