import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsqlake.wire.names import is_ephemeral, is_valid_name

LEGAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


@pytest.mark.parametrize(
    "name",
    [b"a", b"orders.v2-test_1", b".", b"..", b"-", b"a" * 64, b"t#ephemeral", b"a" * 54 + b"#ephemeral"],
)
def test_legal_names_are_valid(name: bytes) -> None:
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"a" * 65,
        b"a" * 55 + b"#ephemeral",
        b"#ephemeral",
        b"a#ephemeral#ephemeral",
        b"a#EPHEMERAL",
        b"a#",
        b"a\n",
        b"a#ephemeral\n",
        b"a b",
        b"a/b",
        b"t!",
        b"t\x00",
        b"t\xff",
        "é".encode(),
        "١".encode(),
    ],
)
def test_everything_else_is_not(name: bytes) -> None:
    assert not is_valid_name(name)


@given(st.text(LEGAL, min_size=1, max_size=54), st.booleans())
def test_every_name_from_the_alphabet_is_valid_with_or_without_the_suffix(name: str, suffix: bool) -> None:
    full = name + "#ephemeral" * suffix

    assert is_valid_name(full.encode())
    assert is_ephemeral(full) == suffix


@given(st.binary(max_size=80))
def test_a_valid_name_holds_only_legal_characters(raw: bytes) -> None:
    if is_valid_name(raw):
        assert 1 <= len(raw) <= 64
        assert set(raw.decode("ascii").removesuffix("#ephemeral")) <= set(LEGAL)
