"""Renews the command table in a page: `python -m nsqlake.apps.wire_protocol_page docs/wire-protocol.md`."""

import sys
from collections.abc import Sequence

from nsqlake.runtime.option_docs import replace_generated
from nsqlake.wire.commands import COMMANDS, ClientState, Command

_STATES = (ClientState.INIT, ClientState.SUBSCRIBED, ClientState.CLOSING)


def command_table() -> str:
    """The commands of protocol V2 as a Markdown table."""
    states = " | ".join(state.name.capitalize() for state in _STATES)
    lines = [f"| command line | body | answer | {states} |", "|---|---|---|" + "---|" * len(_STATES)]
    return "\n".join(lines + [_row(command) for command in COMMANDS.values()]) + "\n"


def _row(command: Command) -> str:
    parameters = "".join(f" <{parameter}>" for parameter in command.parameters)
    cells = [f"`{command.name}{parameters}`", command.body or "–", command.answer or "–"]
    cells += [_legality(command, state) for state in _STATES]
    return "| " + " | ".join(cells) + " |"


def _legality(command: Command, state: ClientState) -> str:
    if state in command.legal:
        return "yes"
    return "ignored" if state in command.ignored else "refused"


def renew(page: str) -> str:
    return replace_generated(page, "commands", command_table())


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite each page named on the command line."""
    for path in sys.argv[1:] if argv is None else argv:
        with open(path, encoding="utf-8") as file:
            page = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(renew(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
