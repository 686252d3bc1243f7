import pytest

from nsqlake.apps.nsq_to_file.topic_filter import TopicFilter


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("", "orders", True),
        ("rder", "orders", True),
        ("^rder", "orders", False),
        ("^o", "orders", True),
        ("s$", "orders", True),
        ("^order$", "orders", False),
        ("a|^o", "orders", True),
        ("x|y", "orders", False),
        ("(?i)ORD", "orders", True),
        ("[0-9]{2,}", "t10", True),
        ("#ephemeral$", "t#ephemeral", True),
        (r"\.", "a.b", True),
    ],
)
def test_an_expression_is_found_anywhere_in_the_name(pattern: str, topic: str, expected: bool) -> None:
    assert TopicFilter(pattern).allows(topic) is expected


@pytest.mark.parametrize("pattern", ["(", "x(", "a)(b", "*", "(?=a)"])
def test_a_broken_expression_matches_nothing_and_says_why(pattern: str) -> None:
    broken = TopicFilter(pattern)

    assert not broken.allows("x")
    assert broken.error


def test_a_good_expression_has_no_error() -> None:
    assert TopicFilter("^a").error == TopicFilter("").error == ""
