"""Queries and escapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.runtime.http.request import decode_escapes, parse_query


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("topic=a", "topic", "a"),
        ("topic=a&topic=b", "topic", "a"),
        ("topic=", "topic", ""),
        ("topic", "topic", ""),
        ("Topic=a", "topic", None),
        ("topic=x#ephemeral", "topic", "x#ephemeral"),
        ("topic=x%23ephemeral", "topic", "x#ephemeral"),
        ("a=1&&topic=b+c", "topic", "b c"),
        ("topic=a%0A", "topic", "a\n"),
        ("topic=%C3%BC", "topic", "ü"),
        ("topic=\xc3\xbc", "topic", "ü"),
        ("topic=%FF", "topic", "\ufffd"),
        ("t%6Fpic=a=b", "topic", "a=b"),
        ("", "topic", None),
    ],
)
def test_first_value_of_a_name_wins_and_blank_counts(query, name, value):
    params = parse_query(query)

    assert params is not None
    assert params.get(name) == value
    assert (name in params) is (value is not None)


@pytest.mark.parametrize("query", ["topic=a;b=1", ";", "topic=%", "topic=%4", "topic=%zz", "%=a", "a=1&b=%x"])
def test_bad_escapes_and_semicolons_are_no_query(query):
    assert parse_query(query) is None


@given(st.text(st.characters(max_codepoint=255)))
def test_any_query_is_parsed_or_refused(query):
    params = parse_query(query)

    assert params is None or params.get("nobody asks for this") is None


def test_escapes_are_decoded_as_utf_8():
    assert decode_escapes("/pu%62") == "/pub"
    assert decode_escapes("/%C3%BC") == "/ü"
    assert decode_escapes("/%") is None
