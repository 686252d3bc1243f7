"""Matching whole names, compared with Python's `re` where both understand the pattern."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsqlake.nsqd.pattern_syntax import PatternError
from nsqlake.nsqd.patterns import MAX_STATES, Pattern, compile_pattern

atoms = st.sampled_from(
    ["a", "b", "-", ".", "[ab]", "[^a]", "\\w", "\\d", "(?:)", "\\b", "\\B", "^", "$", "\\."]
)
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}", "{0,2}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(patterns, st.text("ab-.1", max_size=6))
def test_the_same_names_match_as_with_re(pattern, name):
    # `$` of Python also matches before a last newline, which no name holds; `\B` of "" differs before 3.14.
    expected = re.fullmatch(pattern, name, re.ASCII)

    try:
        compiled = Pattern(pattern)
    except PatternError:
        return
    if name or "\\B" not in pattern:
        assert compiled.matches(name) == bool(expected)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["orders2", "my-orders", "", "Orders"]),
        ("^orders$", ["orders"], ["orders2", ""]),
        ("(?i)orders", ["orders", "ORDERS"], ["order"]),
        ("x(?i:y)z", ["xyz", "xYz"], ["Xyz", "xyZ"]),
        ("(x(?i)y)z", ["xYz"], ["xYZ", "XYz"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        ("orders\\..*", ["orders.new", "orders."], ["orders", "ordersxnew"]),
        (".*", ["", "anything#ephemeral"], []),
        ("", [""], ["a"]),
        ("^c$", ["c"], [""]),
        ("a|", ["a", ""], ["b"]),
        ("\\Qa.b\\E", ["a.b"], ["axb"]),
        ("\\Qa.b", ["a.b"], ["axb"]),
        ("\\Aab\\z", ["ab"], ["abc"]),
        ("jobs#ephemeral", ["jobs#ephemeral"], ["jobs"]),
        ("[[:word:]-]+", ["a_b-1"], ["a.b", ""]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("(a*)*", ["", "aaaa"], ["ab"]),
        ("a^b", [], ["ab", "a^b"]),
    ],
)
def test_names_match_as_a_whole(pattern, matching, others):
    compiled = Pattern(pattern)

    assert [name for name in [*matching, *others] if compiled.matches(name)] == matching


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)=", "a?" * 60 + "a" * 60, "((a{0,5}){0,5}){0,5}b"],
)
def test_patterns_that_ruin_backtracking_take_no_time(pattern):
    compiled = Pattern(pattern)

    started = time.monotonic()
    compiled.matches("a" * 74)

    assert time.monotonic() - started < 1


@pytest.mark.parametrize("pattern", ["((a{100}){100}){100}", "(?:a{0,1000}){5}", "[ab]{999}[ab]{999}"])
def test_a_pattern_that_grows_too_large_is_refused(pattern):
    with pytest.raises(PatternError, match="expression too large"):
        Pattern(pattern)


def test_cost_follows_the_size_of_the_automaton():
    assert Pattern("orders").cost == 1
    assert Pattern("orders.").cost == 8
    assert 900 < Pattern("[ab]{900}").cost <= MAX_STATES
    assert Pattern(f"[{'a' * 500}]").cost == 502


def test_a_plain_name_may_not_be_endless_either():
    with pytest.raises(PatternError, match="longer than 1024 characters"):
        Pattern("a" * 1_025)


def test_equal_patterns_are_compiled_once():
    assert compile_pattern("orders.*") is compile_pattern("orders.*")
