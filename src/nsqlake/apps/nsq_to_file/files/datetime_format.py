"""`--datetime-format`: the few codes of strftime that NSQ knows; everything else stays as it is written."""

import re
from datetime import datetime

_CODE = re.compile("%[YymBbdHIMSpAaZz%]")
_NAMES = {
    "A": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "B": ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December"),
}  # fmt: skip
_SHORT = 3


def format_datetime(text: str, moment: datetime) -> str:
    """`moment` knows its time zone. Names are English, whatever the locale."""
    return _CODE.sub(lambda match: _value(match[0][1], moment), text)


def _value(code: str, moment: datetime) -> str:
    match code:
        case "%":
            return "%"
        case "A":
            return _NAMES["A"][moment.weekday()]
        case "a":
            return _NAMES["A"][moment.weekday()][:_SHORT]
        case "B":
            return _NAMES["B"][moment.month - 1]
        case "b":
            return _NAMES["B"][moment.month - 1][:_SHORT]
        case "p":
            return "AM" if moment.hour < 12 else "PM"
        case _:
            return moment.strftime(f"%{code}")
