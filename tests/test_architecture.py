"""The house rules that a machine can check: who imports whom, what start-up loads, what no file may contain."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "deuteron"

COMMON = {"errors", "numerics", "records", "native"}
"""What every room may import."""

ALLOWED: dict[str, set[str]] = {
    "__init__": {"api"},
    "__main__": {"cli"},
    "cli": {
        "api",
        "inspection",
        "compare",
        "litert",
        "support",
        "tflite_model",
        "board",
        "simulation",
        "planning",
        "profiling",
        "explanation",
        "report",
        "profile",
        "sim",
        "runtime",
        "kernels",
        "arch",
    },
    "api": {"placement", "frontend", "convert", "runtime", "tflite_model", "kernels"},
    "explanation": {"placement", "frontend", "arch"},
    "placement": {"board", "frontend", "runtime", "sim", "arch"},
    "recipes": {"frontend"},
    "compare": {"frontend", "runtime", "tflite", "ir"},
    "litert": {"tflite_model", "tflite", "ir"},
    "tflite_model": {"frontend", "convert", "runtime", "microcode", "tflite", "arch", "ir"},
    "support": {"frontend", "passes", "tflite", "ir"},
    "planning": {"simulation", "frontend", "microcode", "profile", "sim", "kernels"},
    "profiling": {
        "planning",
        "simulation",
        "board",
        "frontend",
        "runtime",
        "report",
        "profile",
        "microcode",
        "sim",
        "kernels",
        "arch",
    },
    "simulation": {"partitions", "convert", "frontend", "runtime", "microcode", "profile", "sim", "kernels", "arch"},
    "board": {"frontend", "runtime", "microcode", "kernels", "arch"},
    "inspection": {"frontend", "runtime", "microcode", "kernels", "tflite", "ir"},
    "frontend": {"partitions", "sdk", "convert", "arch", "kernels", "microcode", "tflite", "ir"},
    "sdk": {"convert", "kernels", "arch"},
    "partitions": {"convert", "plan", "tflite", "arch"},
    "convert": {"tflite", "passes", "plan", "microcode", "arch", "ir", "kernels"},
    "tflite": {"ir", "arch", "kernels", "microcode"},
    "passes": {"ir", "arch", "kernels"},
    "plan": {"ir", "arch", "kernels"},
    "microcode": {"kernels", "arch"},
    "sim": {"microcode", "arch", "kernels"},
    "runtime": {"microcode", "kernels", "arch"},
    "report": {"profile"},
    "profile": {"sim", "runtime", "microcode", "kernels", "arch"},
    "kernels": set(),
    "ir": set(),
    "arch": set(),
    "numerics": set(),
    "records": set(),
    "native": set(),
    "errors": set(),
}
"""Room -> rooms it may import, besides itself and COMMON; ARCHITECTURE in `docs/concepts/` prints the same."""

TORCH = {"torch", "executorch", "torchao"}
TORCH_ROOMS = {"frontend", "runtime", "profile", "compare"}

START_UP_LOADS_NOT = {"torch", "executorch", "numpy", "rich", "tflite", "flatbuffers", "jinja2", "elftools"}


def room_of(path: Path) -> str:
    """The folder of the package, or the module itself, that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that a module imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                whole = module == "deuteron"
                yield from ((node.lineno, f"{module}.{alias.name}" if whole else module) for alias in names)
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{path}:{node.lineno}: relative import; write the full name")
            case _:
                pass


MODULES = sorted(PACKAGE.rglob("*.py"))


def closure(room: str) -> set[str]:
    """Every room that `room` can reach through the table."""
    reached: set[str] = set()
    ahead = [room]
    while ahead:
        for other in ALLOWED[ahead.pop()] - reached:
            reached.add(other)
            ahead.append(other)
    return reached


def test_every_room_has_a_row():
    assert {room_of(path) for path in MODULES} <= set(ALLOWED)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_its_room_may(path: Path):
    room = room_of(path)
    wrong = []
    for line, name in imports_of(path):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "deuteron" and other and other not in {room, *COMMON, *ALLOWED[room]}:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: `{room}` may not import `{name}`")
        if top in TORCH and room not in TORCH_ROOMS:
            wrong.append(f"{path.relative_to(ROOT)}:{line}: `{room}` may not import `{top}`")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("room", ALLOWED)
def test_imports_point_down_only(room: str):
    assert room not in closure(room)


def test_compiler_and_simulator_meet_only_at_the_microcode():
    assert not closure("sim") & {"passes", "plan", "convert", "tflite", "ir"}
    for room in ("passes", "plan", "convert"):
        assert "sim" not in closure(room)


def test_the_architecture_page_prints_this_table():
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text("utf-8")
    block = re.search(r"```imports\n(.*?)```", page, re.DOTALL)
    assert block, "docs/concepts/architecture.md has no ```imports block"
    printed: dict[str, set[str]] = {}
    for line in block[1].splitlines():
        rooms, _, others = line.partition("->")
        for room in rooms.split(","):
            printed[room.strip()] = {o.strip() for o in others.split(",") if o.strip() not in {"", "nothing"}}
    assert printed == ALLOWED


@pytest.mark.parametrize(
    "start", ["import deuteron", "import deuteron.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass"]
)
def test_start_up_loads_nothing_heavy(start: str):
    code = f"import sys\n{start}\nprint('loaded:', *sorted({START_UP_LOADS_NOT!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


FORBIDDEN = {
    "a path of one machine": rb"(?<![\w.])/(?:work|root|tmp|farm)/",
    "a marker of unfinished work": rb"\b(?:TO[D]O|FIX[M]E|X[X]X|HACK[:])",
    "a conflict marker": rb"(?m)^(?:<{7}|>{7}) ",
    "the host of a package registry": rb"py[p]i\.org|pythonhosted[.]org|deb\.debia[n]\.org|download\.pytorc[h]\.org",
}


def test_no_file_contains_what_must_not_leave_a_workshop():
    found = []
    for path in tracked_files():
        content = path.read_bytes()
        for what, pattern in FORBIDDEN.items():
            if hit := re.search(pattern, content):
                line = content.count(b"\n", 0, hit.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {what}: {hit[0].decode(errors='replace')}")
    assert not found, "\n".join(found)


def test_no_source_file_is_longer_than_800_lines():
    sources = [p for p in tracked_files() if p.suffix in {".py", ".c", ".h", ".cpp"}]
    assert not [str(p.relative_to(ROOT)) for p in sources if p.read_bytes().count(b"\n") > 800]
