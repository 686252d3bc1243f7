"""A small options struct with one field of each kind."""

from typing import Annotated

import msgspec

from nsqlake.runtime.durations import SECOND_NS
from nsqlake.runtime.option_kinds import BOOL, DURATION, FLOAT_LIST, INT, STRING, STRING_LIST, ChoiceKind
from nsqlake.runtime.options import NOT_NEGATIVE, POSITIVE, Option

COLOUR = ChoiceKind("red|blue", {"red": 1, "blue": 2})
SWITCH = ChoiceKind("true|false|half", {"true": 2, "half": 1, "false": 0}, is_boolean=True)


class SampleOptions(msgspec.Struct, frozen=True, kw_only=True):
    count: Annotated[int, Option("count", INT, "how many", NOT_NEGATIVE, group="First", key="counted")] = 3
    old: Annotated[
        bool, Option("old", BOOL, "no effect", group="First", in_config=False, deprecated=True)
    ] = False
    wait_ns: Annotated[int, Option("wait", DURATION, "how long", POSITIVE)] = SECOND_NS
    name: Annotated[str, Option("name", STRING, "who", default_text="this user")] = "me"
    on: Annotated[bool, Option("on", BOOL, "whether a|b", go_field="OnEnabled")] = True
    tcp_hosts: Annotated[tuple[str, ...], Option("tcp-host", STRING_LIST, "which", key="tcp_hosts")] = ()
    shares: Annotated[tuple[float, ...], Option("share", FLOAT_LIST, "shares", key="shares")] = ()
    colour: Annotated[int, Option("colour", COLOUR, "shade")] = 1
    switch: Annotated[int, Option("switch", SWITCH, "position")] = 0
