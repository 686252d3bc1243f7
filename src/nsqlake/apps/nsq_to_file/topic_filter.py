"""`--topic-pattern`: which topics are archived."""

from nsqlake.nsqd.pattern_syntax import PatternError
from nsqlake.nsqd.patterns import Pattern


class TopicFilter:
    """An expression of RE2 that is found anywhere in a name; an empty one lets all pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.error = ""
        self._pattern: Pattern | None = None
        if not text:
            return
        try:
            Pattern(text)  # alone: the frame below could mend what is broken, such as `a)(b`
            self._pattern = Pattern(f".*(?:{text}).*")
        except PatternError as error:
            self.error = str(error)

    def allows(self, topic: str) -> bool:
        """A broken expression is found nowhere."""
        if not self.text:
            return True
        return self._pattern is not None and self._pattern.matches(topic)
