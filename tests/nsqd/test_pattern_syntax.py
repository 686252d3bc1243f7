"""What is RE2 and what is not."""

import pytest

from nsqlake.nsqd.pattern_syntax import (
    ASCII,
    Boundary,
    Choice,
    Literal,
    PatternError,
    Repeat,
    Sequence,
    parse,
)


def characters(pattern: str) -> frozenset[str]:
    node = parse(pattern)
    assert isinstance(node, Sequence)
    (literal,) = node.parts
    assert isinstance(literal, Literal)
    return literal.characters


def test_the_tree_of_a_pattern():
    a, b = Literal(frozenset("a")), Literal(frozenset("b"))

    tree = parse("^a|b{2,3}$")

    start, end = Boundary("^"), Boundary("$")
    assert tree == Choice((Sequence((start, a)), Sequence((Repeat(b, 2, 3), end))))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[abc]", "abc"),
        ("[]a]", "]a"),
        ("[a-d-]", "abcd-"),
        ("[-a]", "-a"),
        ("[a\\-z]", "a-z"),
        ("[\\d_]", "0123456789_"),
        ("[[:upper:]x]", "ABCDEFGHIJKLMNOPQRSTUVWXYZx"),
        ("\\x41", "A"),
        ("\\x{41}", "A"),
        ("\\101", "A"),
        ("\\.", "."),
        ("\\t", "\t"),
        ("(?i)[a-c]", "abcABC"),
        ("\\p{Nd}", "0123456789"),
        ("\\pN", "0123456789"),
        ("\\P{^Nd}", "0123456789"),
        ("é", "é"),
        ("[a-é]", "abcdefghijklmnopqrstuvwxyz{|}~\x7fé"),
        ("{", "{"),
    ],
)
def test_one_character_out_of_a_set(pattern, expected):
    parts = parse(pattern).parts

    assert parts[-1].characters == frozenset(expected)


@pytest.mark.parametrize("pattern", ["[^a]", "[^\\x61]", "(?:[^a])", "[[:^lower:]b-z]"])
def test_complements_are_taken_within_ascii(pattern):
    node = parse(pattern).parts[0]
    literal = node.parts[0] if isinstance(node, Sequence) else node

    assert literal.characters == ASCII - {"a"}


def test_perl_classes_and_their_complements():
    assert characters("\\w") | characters("\\W") == ASCII
    assert characters("\\s") == frozenset("\t\n\f\r ")
    assert characters(".") == ASCII - {"\n"}


@pytest.mark.parametrize("pattern", ["(?:a)", "(a)", "(?P<n>a)", "(?<n>a)", "(?s-i:a)", "(?:(?:a))"])
def test_groups_leave_no_trace(pattern):
    node = parse(pattern)
    while isinstance(node, Sequence):
        (node,) = node.parts

    assert node == Literal(frozenset("a"))


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?!a)", "invalid or unsupported Perl syntax"),
        ("(?<=a)", "invalid or unsupported Perl syntax"),
        ("(?<!a)", "invalid or unsupported Perl syntax"),
        ("(?>a)", "invalid or unsupported Perl syntax"),
        ("(?P=n)", "invalid or unsupported Perl syntax"),
        ("(?(1)a|b)", "invalid or unsupported Perl syntax"),
        ("(?#comment)", "invalid or unsupported Perl syntax"),
        ("(?x)a", "invalid or unsupported Perl syntax"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(a)\\1", "invalid escape sequence"),
        ("\\Z", "invalid escape sequence"),
        ("\\x{110000}", "invalid escape sequence"),
        ("\\", "invalid escape sequence"),
        ("[\\", "invalid escape sequence"),
        ("\\é", "invalid escape sequence"),
        ("(", "missing closing )"),
        (")", "unexpected )"),
        ("a)b", "unexpected )"),
        ("[", "missing closing ]"),
        ("[]", "missing closing ]"),
        ("[a", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("[a-\\d]", "invalid character class range"),
        ("[[:nonsense:]]", "invalid character class range"),
        ("\\p{Nonsense}", "invalid or unsupported character class"),
        ("\\p", "invalid or unsupported character class"),
        ("*", "missing argument to repetition operator"),
        ("a|*", "missing argument to repetition operator"),
        ("(+)", "missing argument to repetition operator"),
        ("{2}", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a++", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{3,2}", "invalid repeat count"),
        ("a" * 1_025, "longer than 1024 characters"),
        ("(" * 51 + "a" + ")" * 51, "nested too deeply"),
    ],
)
def test_what_is_not_re2_is_refused(pattern, reason):
    with pytest.raises(PatternError) as refusal:
        parse(pattern)

    assert refusal.value.reason == reason
