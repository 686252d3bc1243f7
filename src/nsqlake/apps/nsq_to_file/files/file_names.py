"""The names of a topic's files: what `--filename-format` becomes, at the start, by time and by revision."""

from dataclasses import dataclass
from datetime import datetime

from nsqlake.apps.nsq_to_file.errors import MissingRevisionError
from nsqlake.apps.nsq_to_file.files.datetime_format import format_datetime

REVISION = "<REV>"
DATETIME = "<DATETIME>"
GZIP_SUFFIX = ".gz"

# The only names of topics that mean something else in a path.
_PATH_WORDS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True)
class Host:
    """Who writes the files, for the names of files that several machines or processes write."""

    name: str
    pid: int

    @property
    def short_name(self) -> str:
        return self.name.partition(".")[0]

    def identifier(self, text: str) -> str:
        """What `<HOST>` stands for, if `--host-identifier` is `text`."""
        if not text:
            return self.short_name
        return text.replace("<SHORT_HOST>", self.short_name).replace("<HOSTNAME>", self.name)


@dataclass(frozen=True)
class FileNames:
    """`template` is relative to the directories; it has no tokens left but those of time and revision."""

    template: str
    datetime_format: str

    def at(self, moment: datetime) -> str:
        """The name at a local time, still without its revision."""
        return self.template.replace(DATETIME, format_datetime(self.datetime_format, moment))


def with_revision(name: str, revision: int) -> str:
    return name.replace(REVISION, f"-{revision:06d}")


def fill_template(
    filename_format: str, *, topic: str, host: str, pid: int, is_gzip: bool, has_revisions: bool
) -> str:
    """The template of a topic. MissingRevisionError when it needs revisions and has no place for them."""
    if not has_revisions:
        filename_format = filename_format.replace(REVISION, "")
    elif REVISION not in filename_format:
        raise MissingRevisionError(filename_format)
    name = filename_format.replace("<TOPIC>", _PATH_WORDS.get(topic, topic))
    name = name.replace("<HOST>", host).replace("<PID>", str(pid))
    return name if not is_gzip or name.endswith(GZIP_SUFFIX) else name + GZIP_SUFFIX
