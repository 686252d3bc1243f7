import pytest

from nsqlake.runtime.errors import FlagError, FloatFlagError
from nsqlake.runtime.go_flags import parse_flags
from tests.runtime.sample_options import SampleOptions


def values(*argv: str) -> dict[str, object]:
    return parse_flags(SampleOptions, argv).values


@pytest.mark.parametrize("argv", [["-count=5"], ["--count=5"], ["-count", "5"], ["--count", "5"]])
def test_one_and_two_dashes_and_both_forms_of_value_are_the_same(argv: list[str]) -> None:
    assert values(*argv) == {"count": 5}


def test_every_kind_is_parsed() -> None:
    argv = [
        "--wait=2s",
        "--name=x=y",
        "--on=F",
        "--tcp-host=a",
        "--share=0.5",
        "--colour=BLUE",
        "--switch=half",
    ]

    assert values(*argv) == {
        "wait_ns": 2_000_000_000,
        "name": "x=y",
        "on": False,
        "tcp_hosts": ("a",),
        "shares": (0.5,),
        "colour": 2,
        "switch": 1,
    }


def test_a_boolean_standing_alone_is_true() -> None:
    assert values("--on", "--switch") == {"on": True, "switch": 2}


def test_a_boolean_does_not_take_the_next_word_and_that_word_ends_the_flags() -> None:
    parsed = parse_flags(SampleOptions, ["--on", "false", "--count=5"])

    assert parsed.values == {"on": True}
    assert parsed.arguments == ["false", "--count=5"]


@pytest.mark.parametrize("end", ["--", "-", "word", ""])
def test_nothing_is_parsed_behind_the_end_of_the_flags(end: str) -> None:
    assert values("--count=1", end, "--count=2", "--bogus") == {"count": 1}


def test_a_value_may_look_like_a_flag() -> None:
    assert values("--name", "--count=3") == {"name": "--count=3"}


def test_the_last_of_repeated_flags_wins_and_lists_grow() -> None:
    parsed = values("--count=1", "--count=2", "--tcp-host=a,b", "--tcp-host=c")

    assert parsed == {"count": 2, "tcp_hosts": ("a,b", "c")}


def test_floats_of_flags_are_split_at_commas_and_sorted_downwards() -> None:
    assert values("--share=0.5,0.99", "--share=0.9") == {"shares": (0.99, 0.9, 0.5)}


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["---x"], "bad flag syntax: ---x"),
        (["--=x"], "bad flag syntax: --=x"),
        (["--bogus=3"], "flag provided but not defined: -bogus"),
        (["--name"], "flag needs an argument: -name"),
        (["--count=abc"], 'invalid value "abc" for flag -count: parse error'),
        (["--count="], 'invalid value "" for flag -count: parse error'),
        (["--count=99999999999999999999"],
         'invalid value "99999999999999999999" for flag -count: value out of range'),
        (["--wait=60"], 'invalid value "60" for flag -wait: parse error'),
        (["--on=no"], 'invalid boolean value "no" for -on: parse error'),
        (["--colour=green"], 'invalid value "green" for flag -colour: unknown value "green"'),
        (["--switch=maybe"], 'invalid boolean value "maybe" for -switch: unknown value "maybe"'),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_gos_words(argv: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(SampleOptions, argv)

    assert str(caught.value) == text


def test_a_list_of_floats_with_something_else_has_an_error_of_its_own() -> None:
    with pytest.raises(FloatFlagError, match=r"^Could not parse: abc$"):
        parse_flags(SampleOptions, ["--share=0.5,abc"])


@pytest.mark.parametrize("word", ["-h", "--help", "-help=5"])
def test_help_ends_the_parsing_at_once(word: str) -> None:
    assert parse_flags(SampleOptions, ["--count=1", word, "--bogus"]).help_requested


def test_a_mistake_before_help_counts_first() -> None:
    with pytest.raises(FlagError):
        parse_flags(SampleOptions, ["--bogus", "--help"])
