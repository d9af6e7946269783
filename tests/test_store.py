"""The store of builds that tests share: what is found again, what is made again, and what may not be done with it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import store

Make = Callable[[Path], object]


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a compiler of one file, a test file that imports another, and an empty store."""
    root = tmp_path / "checkout"
    for name, text in {
        "src/deuteron/compiler.py": "VERSION = 1\n",
        "tests/test_it.py": "from tests.rooms.nets import NET\n",
        "tests/rooms/nets.py": "def net():\n    from .parts import PART\n",
        "tests/rooms/parts.py": "PART = 1\n",
        "tests/rooms/others.py": "import tests.test_it\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(store, "ROOT", root)
    monkeypatch.setattr(store, "STORE", root / "store")
    forget()
    yield root
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Lets the store look at all files again, as another run does."""
    store._generation.cache_clear()
    store.imported.cache_clear()


def writes(text: str, log: list[str]) -> Make:
    def make(output: Path) -> None:
        log.append(text)
        output.mkdir()
        (output / "file").write_text(text)

    return make


def test_what_was_made_is_found_again() -> None:
    log: list[str] = []
    places = [store.kept(key, writes(key, log), name="net") for key in ("a", "b", "a")]
    assert log == ["a", "b"]
    assert [(place.name, (place / "file").read_text()) for place in places] == [
        ("net", "a"),
        ("net", "b"),
        ("net", "a"),
    ]
    forget()
    assert store.kept("a", writes("a", log), name="net") == places[0]
    assert store.kept("a", writes("a", log), name="other") != places[0]
    assert log == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("file", "again"),
    [
        ("src/deuteron/compiler.py", True),
        ("src/deuteron/lib/new.so", True),
        ("firmware/new.c", True),
        ("examples/new.py", True),
        ("tests/test_it.py", True),
        ("tests/rooms/nets.py", True),
        ("tests/rooms/parts.py", True),
        ("tests/rooms/others.py", False),
        ("src/deuteron/__pycache__/compiler.pyc", False),
    ],
)
def test_a_change_of_what_a_build_comes_from_makes_it_again(file: str, again: bool, checkout: Path) -> None:
    log: list[str] = []
    source = checkout / "tests" / "test_it.py"
    store.kept("key", writes("a", log), name="net", source=source)
    (checkout / file).parent.mkdir(parents=True, exist_ok=True)
    (checkout / file).write_text("VERSION = 2\n")
    forget()
    store.kept("key", writes("a", log), name="net", source=source)
    assert len(log) == 1 + again


def first() -> tuple[str, tuple[()], None]:
    return "first", (), None


def second() -> tuple[str, tuple[()], None]:
    return "second", (), None


def test_functions_of_one_file_make_networks_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(store.api, "build", lambda module, _, *, output, **__: writes(module, log)(output))
    for make in (first, second, first):
        assert (store.network(make, "net") / "file").read_text() == make.__name__
    assert log == ["first", "second"]


def test_another_version_of_a_package_makes_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    store.kept("key", writes("a", log), name="net")
    monkeypatch.setattr(store, "distributions", list)
    forget()
    store.kept("key", writes("a", log), name="net")
    assert len(log) == 2


def test_what_failed_is_made_again() -> None:
    def fail(output: Path) -> None:
        output.mkdir()
        (output / "file").write_text("half")
        raise ValueError("no")

    log: list[str] = []
    with pytest.raises(ValueError, match="no"):
        store.kept("key", fail, name="net")
    assert (store.kept("key", writes("whole", log), name="net") / "file").read_text() == "whole"


@pytest.mark.parametrize("name", ["file", "another"])
def test_writing_into_what_is_shared_is_found_out(name: str) -> None:
    place = store.kept("key", writes("a", []), name="net")
    (place / name).write_text("b!")
    with pytest.raises(AssertionError, match=f"a test has written into {place}"):
        store.kept("key", writes("a", []), name="net")


def test_old_compilers_builds_are_removed(checkout: Path) -> None:
    places: list[Path] = []
    for version in range(store.GENERATIONS + 2):
        (checkout / "src/deuteron/compiler.py").write_text(f"VERSION = {version}\n")
        forget()
        places.append(store.kept("key", writes("a", []), name="net"))
        os.utime(places[-1].parents[1], (version, version))  # the clock of files may stand still between two
    assert [place.exists() for place in places] == [False] * 2 + [True] * store.GENERATIONS


AT_ONCE = """
import sys, time
from pathlib import Path
from tests import store
store.ROOT, store.STORE = Path(sys.argv[1]), Path(sys.argv[1]) / "store"
def make(output):
    output.mkdir()
    (output / "first").write_text("1")
    time.sleep(0.2)
    (output / "last").write_text("2")
    print("made")
assert (store.kept("key", make, name="net") / "last").read_text() == "2"
"""


def test_processes_wait_for_each_other(checkout: Path) -> None:
    command = [sys.executable, "-c", AT_ONCE, str(checkout)]
    running = [
        subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert "".join(process.communicate()[0] for process in running) == "made\n"
    assert [process.returncode for process in running] == [0, 0]
