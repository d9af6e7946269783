import itertools
import os
from pathlib import Path

import pytest

from deuteron.builds import output
from deuteron.errors import InputError, OptionError

ROOM = "\n\nhint: make room there, or choose another place"
FILES = {"model.pte": b"new", "build.json": b"{}"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_directory_holds_the_files_and_nothing_is_left_beside_it(tmp_path: Path):
    output.write(tmp_path / "out", FILES, force=False)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == FILES
    assert names(tmp_path) == ["out"]


def test_an_existing_directory_is_not_replaced(tmp_path: Path):
    output.write(tmp_path / "out", {"build.json": b"old"}, force=False)
    with pytest.raises(OptionError) as caught:
        output.write(tmp_path / "out", FILES, force=False)
    assert str(caught.value) == (
        f"`{tmp_path / 'out'}` already exists\n\n"
        "hint: choose another output directory, or replace this one with `--force`"
    )
    assert (tmp_path / "out" / "build.json").read_bytes() == b"old"


def test_force_replaces_an_earlier_build_whole(tmp_path: Path):
    output.write(tmp_path / "out", {"build.json": b"old", "npu_0.tflite": b"old"}, force=False)
    output.write(tmp_path / "out", FILES, force=True)
    assert names(tmp_path / "out") == ["build.json", "model.pte"]
    assert names(tmp_path) == ["out"]


def test_force_fills_an_empty_directory(tmp_path: Path):
    (tmp_path / "out").mkdir()
    output.write(tmp_path / "out", FILES, force=True)
    assert names(tmp_path / "out") == ["build.json", "model.pte"]


def test_force_never_replaces_a_directory_that_is_no_build(tmp_path: Path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(OptionError) as caught:
        output.write(tmp_path, FILES, force=True)
    assert str(caught.value) == (
        f"`{tmp_path}` has files but no `build.json`, so it is not replaced\n\nhint: choose another output directory, "
        "or empty this one yourself"
    )
    assert names(tmp_path) == ["thesis.txt"]


def test_force_does_not_replace_a_file_or_a_link(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "build").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "build")
    for name, force in itertools.product(("file", "link"), (True, False)):
        with pytest.raises(OptionError) as caught:
            output.write(tmp_path / name, FILES, force=force)
        assert str(caught.value) == (f"`{tmp_path / name}` is not a directory\n\nhint: choose another output directory")


def test_a_missing_parent_is_named(tmp_path: Path):
    with pytest.raises(InputError) as caught:
        output.check_output(tmp_path / "a" / "b", force=False)
    assert str(caught.value) == f"the folder `{tmp_path / 'a'}` does not exist\n\nhint: create it first"


def test_a_parent_that_is_a_file_is_no_missing_folder(tmp_path: Path):
    (tmp_path / "nets.py").touch()
    with pytest.raises(InputError) as caught:
        output.check_output(tmp_path / "nets.py" / "out", force=False)
    assert str(caught.value) == (
        f"`{tmp_path / 'nets.py'}` is a file, not a folder\n\nhint: choose another output directory"
    )


def test_a_folder_that_takes_nothing_is_told_before_the_work():
    with pytest.raises(InputError) as caught:
        output.check_output(Path("/proc/build"), force=False)
    assert str(caught.value) == (
        "`/proc/build` cannot be written: No such file or directory\n\nhint: choose a folder that you may write to"
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_python_file_is_never_replaced(tmp_path: Path, force: bool):
    path = tmp_path / "nets.py"
    path.touch()
    with pytest.raises(OptionError) as caught:
        output.check_file(path, force=force)
    assert str(caught.value) == f"`{path}` is a Python file, so it is not replaced\n\nhint: choose another name"


def test_a_file_in_no_folder_is_refused(tmp_path: Path):
    path = tmp_path / "none" / "trace.json"
    with pytest.raises(InputError) as caught:
        output.check_file(path, force=False)
    assert str(caught.value) == (
        f"`{path}` cannot be written: there is no directory `{path.parent}`\n\nhint: create it first"
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_failure_while_writing_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
):
    if force:
        output.write(tmp_path / "out", {"build.json": b"old"}, force=False)
    real = Path.write_bytes

    def full_disk(self: Path, data: bytes) -> int:
        if self.name == "build.json":
            raise OSError(28, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full_disk)
    with pytest.raises(InputError) as caught:
        output.write(tmp_path / "out", FILES, force=force)
    assert str(caught.value) == f"`{tmp_path / 'out'}` cannot be written: No space left on device{ROOM}"
    assert names(tmp_path) == (["out"] if force else [])
    if force:
        assert (tmp_path / "out" / "build.json").read_bytes() == b"old"


def test_a_failing_swap_gives_the_old_build_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output.write(tmp_path / "out", {"build.json": b"old"}, force=False)
    real = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(13, "Permission denied")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(InputError):
        output.write(tmp_path / "out", FILES, force=True)
    assert (tmp_path / "out" / "build.json").read_bytes() == b"old"
    assert names(tmp_path) == ["out"]


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OptionError) as caught:
        output.check_file(pipe, force=True)
    assert str(caught.value) == f"`{pipe}` is not a regular file, so it is not replaced\n\nhint: choose another name"
