"""Regular expressions matched against whole names in linear time.

Every state of the automaton is visited at most once per character, so no pattern can hang the event loop.
Python's backtracking `re` cannot promise that, even without nested quantifiers (`a?a?a?...aaa`).
"""

import re
from functools import lru_cache

from nsqlake.nsqd.pattern_syntax import (
    ASCII,
    MAX_LENGTH,
    Boundary,
    Characters,
    Choice,
    Literal,
    Node,
    PatternError,
    Repeat,
    Sequence,
    parse,
)

MAX_STATES = 1_000

# Most patterns are names; they need no automaton.
_PLAIN = re.compile(r"\^?([A-Za-z0-9_-]*(?:#ephemeral)?)\$?", re.ASCII)
_WORD = frozenset(c for c in ASCII if c.isalnum() or c == "_")


class _State:
    """With `characters` it consumes one of them; with `boundary` it asks for one; else it only branches."""

    __slots__ = ("boundary", "characters", "number", "targets")

    def __init__(self, number: int, characters: Characters | None, boundary: str) -> None:
        self.number = number
        self.characters = characters
        self.boundary = boundary
        self.targets: list[_State] = []


class Pattern:
    """A compiled pattern; PatternError when it is not RE2 or too large."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._states: list[_State] = []
        plain = _PLAIN.fullmatch(text) if len(text) <= MAX_LENGTH else None
        self._plain = plain[1] if plain else None
        if plain:
            return
        self._accept = self._add()
        self._start = self._build(parse(text), self._accept)

    @property
    def cost(self) -> int:
        """What compiling, and one character of matching, take at most, in arbitrary units."""
        return 1 if self._plain is not None else max(len(self._states), len(self.text))

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches."""
        if self._plain is not None:
            return name == self._plain
        current = self._close([self._start], name, 0)
        for position, character in enumerate(name, 1):
            reached = [
                state.targets[0]
                for state in current
                if state.characters is not None and character in state.characters
            ]
            if not reached:
                return False
            current = self._close(reached, name, position)
        return self._accept in current

    def _close(self, waiting: list[_State], name: str, position: int) -> list[_State]:
        """`waiting` and everything reachable from it without consuming a character."""
        seen = bytearray(len(self._states))
        closed = []
        while waiting:
            state = waiting.pop()
            if seen[state.number]:
                continue
            seen[state.number] = 1
            if state.characters is not None or state is self._accept:
                closed.append(state)
            elif not state.boundary or _is_at(state.boundary, name, position):
                waiting.extend(state.targets)
        return closed

    def _add(self, *targets: _State, characters: Characters | None = None, boundary: str = "") -> _State:
        if len(self._states) >= MAX_STATES:
            raise PatternError("expression too large")
        state = _State(len(self._states), characters, boundary)
        state.targets.extend(targets)
        self._states.append(state)
        return state

    def _build(self, node: Node, following: _State) -> _State:
        """The state that matches `node` and goes on to `following`."""
        match node:
            case Literal(characters):
                return self._add(following, characters=characters)
            case Boundary(kind):
                return self._add(following, boundary=kind)
            case Sequence(parts):
                for part in reversed(parts):
                    following = self._build(part, following)
                return following
            case Choice(options):
                return self._add(*[self._build(option, following) for option in options])
            case Repeat():
                return self._build_repeat(node, following)

    def _build_repeat(self, node: Repeat, following: _State) -> _State:
        if node.most is None:
            loop = self._add()
            loop.targets.extend([self._build(node.part, loop), following])
            entry = loop
        else:
            entry = following
            for _ in range(node.most - node.least):
                entry = self._add(self._build(node.part, entry), following)
        for _ in range(node.least):
            entry = self._build(node.part, entry)
        return entry


@lru_cache(maxsize=4_096)
def compile_pattern(text: str) -> Pattern:
    """Clients of one kind get the same patterns, so they share them."""
    return Pattern(text)


def _is_at(boundary: str, name: str, position: int) -> bool:
    if boundary == "^":
        return position == 0
    if boundary == "$":
        return position == len(name)
    before = position > 0 and name[position - 1] in _WORD
    after = position < len(name) and name[position] in _WORD
    return (before != after) == (boundary == "b")
