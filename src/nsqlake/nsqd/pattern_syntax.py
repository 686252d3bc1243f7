"""Parser of the regular expressions that auth servers send: the syntax of RE2, for names in ASCII.

RE2 has no look-around, no back-reference and no possessive quantifier. Greed and captures do not matter for
whole matches and leave no trace in the tree.
"""

import re
import unicodedata
from dataclasses import dataclass

from nsqlake.errors import NsqlakeError

MAX_LENGTH = 1_024
MAX_DEPTH = 50
MAX_REPEAT = 1_000  # RE2

Characters = frozenset[str]


@dataclass(frozen=True)
class Literal:
    """Any one of `characters`."""

    characters: Characters


@dataclass(frozen=True)
class Boundary:
    """A place between characters: `kind` is ^ $ b or B."""

    kind: str


@dataclass(frozen=True)
class Sequence:
    parts: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    options: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """At least `least` times, at most `most` if that is set."""

    part: "Node"
    least: int
    most: int | None


Node = Literal | Boundary | Sequence | Choice | Repeat

ASCII = frozenset(map(chr, range(128)))
_DIGITS = frozenset("0123456789")
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WORD = _DIGITS | _LOWER | _UPPER | {"_"}
_SPACE = frozenset("\t\n\f\r ")
_GRAPH = frozenset(map(chr, range(0x21, 0x7F)))
_PERL_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_POSIX_CLASSES = {
    "alnum": _WORD - {"_"},
    "alpha": _LOWER | _UPPER,
    "ascii": ASCII,
    "blank": frozenset("\t "),
    "cntrl": ASCII - _GRAPH - {" "},
    "digit": _DIGITS,
    "graph": _GRAPH,
    "lower": _LOWER,
    "print": _GRAPH | {" "},
    "punct": _GRAPH - _WORD | {"_"},
    "space": _SPACE | {"\v"},
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
_CATEGORIES = re.compile(
    "C|Cc|Cf|Co|Cs|L|Ll|Lm|Lo|Lt|Lu|M|Mc|Me|Mn|N|Nd|Nl|No|P|Pc|Pd|Pe|Pf|Pi|Po|Ps|S|Sc|Sk|Sm|So|Z|Zl|Zp|Zs"
)
_CONTROL_ESCAPES = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_BOUNDARY_ESCAPES = {"A": "^", "z": "$", "b": "b", "B": "B"}

_COUNTED = re.compile(r"\{([0-9]{1,5})(,([0-9]{1,5})?)?\}", re.ASCII)
_GROUP = re.compile(r"\?(?:P?<([A-Za-z0-9_]+)>|([imsU]*(?:-[imsU]+)?)([:)]))", re.ASCII)
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")
_CATEGORY = re.compile(r"[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")


class PatternError(NsqlakeError):
    """A regular expression that is not RE2, or too large."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def parse(pattern: str) -> Node:
    if len(pattern) > MAX_LENGTH:
        raise PatternError(f"longer than {MAX_LENGTH} characters")
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._folds_case = False
        self._group_names: set[str] = set()

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise PatternError("unexpected )")
        return node

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, token: str) -> bool:
        if not self._text.startswith(token, self._at):
            return False
        self._at += len(token)
        return True

    def _match(self, token: re.Pattern[str]) -> re.Match[str] | None:
        match = token.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._take("|"):
            options.append(self._sequence())
        return Choice(tuple(options)) if len(options) > 1 else options[0]

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.extend(self._quoted() if self._take("\\Q") else [self._repeated()])
        return Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        quoted, _, _ = self._text[self._at :].partition("\\E")
        self._at += len(quoted)
        self._take("\\E")
        return [self._literal(frozenset(character)) for character in quoted]

    def _repeated(self) -> Node:
        if self._quantifier():
            raise PatternError("missing argument to repetition operator")
        atom = self._atom()
        counts = self._quantifier()
        if counts is None:
            return atom
        self._take("?")
        if self._quantifier():
            raise PatternError("invalid nested repetition operator")
        return Repeat(atom, *counts)

    def _quantifier(self) -> tuple[int, int | None] | None:
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return counts
        counted = self._match(_COUNTED)
        if counted is None:
            return None
        least = int(counted[1])
        most = int(counted[3]) if counted[3] else None if counted[2] else least
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise PatternError("invalid repeat count")
        return least, most

    def _atom(self) -> Node:
        if self._take("("):
            return self._group()
        if self._take("["):
            return self._literal(self._class())
        if self._take("\\"):
            return self._escape()
        character = self._peek()
        self._at += 1
        if character == ".":
            return Literal(ASCII - {"\n"})
        if character in "^$":
            return Boundary(character)
        return self._literal(frozenset(character))

    def _group(self) -> Node:
        outer_folds_case = self._folds_case
        if self._peek() == "?":
            opened = self._match(_GROUP)
            if opened is None:
                raise PatternError("invalid or unsupported Perl syntax")
            self._note_name(opened[1])
            self._set_flags(opened[2] or "")
            if opened[3] == ")":  # flags alone: they hold up to the end of the group around them
                return Sequence(())
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError("nested too deeply")
        node = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise PatternError("missing closing )")
        self._folds_case = outer_folds_case
        return node

    def _note_name(self, name: str | None) -> None:
        if name in self._group_names:
            raise PatternError("duplicate capture group name")
        if name:
            self._group_names.add(name)

    def _set_flags(self, flags: str) -> None:
        on, _, off = flags.partition("-")
        self._folds_case = (self._folds_case or "i" in on) and "i" not in off

    def _escape(self) -> Node:
        kind = _BOUNDARY_ESCAPES.get(self._peek())
        if kind:
            self._at += 1
            return Boundary(kind)
        return self._literal(self._escaped_characters())

    def _escaped_characters(self) -> Characters:
        letter = self._peek()
        if letter.lower() in _PERL_CLASSES:
            self._at += 1
            characters = _PERL_CLASSES[letter.lower()]
            return ASCII - characters if letter.isupper() else characters
        if letter in ("p", "P"):
            return self._category()
        return frozenset(self._escaped_character())

    def _escaped_character(self) -> str:
        if code := self._match(_HEX):
            value = int(code[1] or code[2], 16)
        elif code := self._match(_OCTAL):
            value = int(code[0], 8)
        else:
            letter = self._peek()
            if letter not in _CONTROL_ESCAPES and (letter not in ASCII - _WORD or not letter):
                raise PatternError("invalid escape sequence")
            self._at += 1
            return _CONTROL_ESCAPES.get(letter, letter)
        if value > 0x10FFFF:
            raise PatternError("invalid escape sequence")
        return chr(value)

    def _category(self) -> Characters:
        match = self._match(_CATEGORY)
        name = (match[2] or match[3]) if match else ""
        if match is None or not _CATEGORIES.fullmatch(name):
            raise PatternError("invalid or unsupported character class")
        characters = frozenset(c for c in ASCII if unicodedata.category(c).startswith(name))
        negated = match[0].startswith("P") != bool(match[1])
        return ASCII - characters if negated else characters

    def _class(self) -> Characters:
        negated = self._take("^")
        characters: set[str] = set()
        first = True
        while first or not self._take("]"):
            characters |= self._class_item()
            first = False
        found = _fold(characters) if self._folds_case else frozenset(characters)
        return ASCII - found if negated else found

    def _class_item(self) -> Characters:
        if posix := self._match(_POSIX):
            if posix[2] not in _POSIX_CLASSES:
                raise PatternError("invalid character class range")
            characters = _POSIX_CLASSES[posix[2]]
            return ASCII - characters if posix[1] else characters
        low = self._class_end()
        if len(low) == 1 and self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
            self._at += 1
            return _range(low, self._class_end())
        return low

    def _class_end(self) -> Characters:
        """One end of a range, or a whole class such as \\d that cannot be one."""
        if self._take("\\"):
            return self._escaped_characters()
        character = self._peek()
        if not character:
            raise PatternError("missing closing ]")
        self._at += 1
        return frozenset(character)

    def _literal(self, characters: Characters) -> Literal:
        return Literal(_fold(characters) if self._folds_case else characters)


def _range(low: Characters, high: Characters) -> Characters:
    (first,) = low
    last = max(high, default="")
    if len(high) != 1 or last < first:
        raise PatternError("invalid character class range")
    # Names are ASCII: of a range beyond it only the ends need to be remembered.
    return frozenset(c for c in ASCII if first <= c <= last) | low | high


def _fold(characters: set[str] | Characters) -> Characters:
    letters = {c for c in characters if c in _LOWER or c in _UPPER}
    return frozenset(characters) | frozenset(c.swapcase() for c in letters)
