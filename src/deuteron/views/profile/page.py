"""Writes the page of an existing profile."""

from pathlib import Path

from deuteron.builds.output import check_file, write_files
from deuteron.views.events import record
from deuteron.views.report import page


def write_page(profile: Path, output: Path | None, *, force: bool) -> Path:
    """Write the page, next to the profile unless `output` is given, and return its path.

    Raises:
        InputError, FormatError: there is no profile, it is damaged, or the page cannot be written.
        OptionError: the page exists, and `force` is not set.
        MissingToolError: the chart library is not installed.
    """
    target = output or (profile if profile.is_dir() else profile.parent) / page.FILE
    read = record.read(profile)
    check_file(target, force=force)
    write_files({target: page.html(read).encode()})
    return target
