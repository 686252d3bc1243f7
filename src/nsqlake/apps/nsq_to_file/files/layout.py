"""Where a topic's files are while they are written and when they are finished, and what is in them."""

import os
from dataclasses import dataclass

from nsqlake.apps.nsq_to_file.files.encodings import Encoding, GzipMembers, Plain
from nsqlake.apps.nsq_to_file.files.file_names import FileNames, Host, fill_template, with_revision
from nsqlake.apps.nsq_to_file.files.rotation import Rotation
from nsqlake.apps.nsq_to_file.options import NsqToFileOptions


@dataclass(frozen=True)
class Layout:
    """Directories are absolute; `gzip_level` is 0 for plain files."""

    output_dir: str
    work_dir: str
    names: FileNames
    rotation: Rotation
    gzip_level: int = 0
    skips_empty_files: bool = False

    @property
    def has_work_dir(self) -> bool:
        return self.work_dir != self.output_dir

    @property
    def is_exclusive(self) -> bool:
        """Whether a file that exists already is left alone; else it is continued."""
        return self.gzip_level > 0 or self.rotation.interval_ns > 0

    def work_path(self, name: str, revision: int) -> str:
        return _below(self.work_dir, with_revision(name, revision))

    def output_path(self, name: str, revision: int) -> str:
        return _below(self.output_dir, with_revision(name, revision))

    def new_encoding(self) -> Encoding:
        return GzipMembers(self.gzip_level) if self.gzip_level else Plain()


def _below(directory: str, name: str) -> str:
    return os.path.normpath(f"{directory}/{name}")  # also when the name begins with /


def layout_of(options: NsqToFileOptions, topic: str, host: Host) -> Layout:
    """MissingRevisionError when `--filename-format` does not fit the other options."""
    output_dir = work_dir = os.path.abspath(options.output_dir)
    if options.work_dir and os.path.realpath(options.work_dir) != os.path.realpath(output_dir):
        work_dir = os.path.abspath(options.work_dir)
    rotation = Rotation(options.rotate_interval_ns, options.rotate_size_bytes)
    template = fill_template(
        options.filename_format,
        topic=topic,
        host=host.identifier(options.host_identifier),
        pid=host.pid,
        is_gzip=options.gzip,
        has_revisions=options.gzip or rotation.is_on or work_dir != output_dir,
    )
    return Layout(
        output_dir,
        work_dir,
        FileNames(template, options.datetime_format),
        rotation,
        gzip_level=options.gzip_level if options.gzip else 0,
        skips_empty_files=options.skip_empty_files,
    )
