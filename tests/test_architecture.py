"""The house rules that a machine can check: who imports whom, what start-up loads, what no file may contain."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import deuteron

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "deuteron"

VENDORED = PACKAGE / "views" / "report" / "uplot"
"""A library of others, as it is."""

COMMON = {"errors", "extras", "numerics", "records", "native", "flatbuffer"}
"""Modules that every package may import."""


def _block(name: str) -> Iterator[tuple[str, set[str]]]:
    """The rows of a table in `docs/concepts/architecture.md`: a package, and its entries."""
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text("utf-8")
    block = re.search(rf"```{name}\n(.*?)```", page, re.DOTALL)
    assert block, f"docs/concepts/architecture.md has no ```{name} block"
    for line in block[1].splitlines():
        rooms, _, others = line.partition("->")
        for room in rooms.split(","):
            yield room.strip(), {o.strip() for o in others.split(",") if o.strip() not in {"", "nothing"}}


ALLOWED = dict(_block("imports"))
"""Maps a package or module, by its dotted name, to those it may import, besides itself and COMMON."""

TORCH = {"torch", "executorch", "torchao"}
TORCH_ROOMS = {room for room, _ in _block("torch")}

START_UP_LOADS_NOT = {"torch", "executorch", "numpy", "tflite", "flatbuffers", "jinja2", "elftools"}


def module_of(path: Path) -> str:
    """The dotted name of a file below the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """Return the package with the longest name that a module is, or is in; none for modules without a row."""
    rooms = [room for room in ALLOWED if f"{module}.".startswith(f"{room}.")]
    return max(rooms, key=len, default="")


MODULES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that a module imports, wherever in the file it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(package), names=names, level=0):
                for alias in names:
                    inner = f"{package}.{alias.name}"
                    yield node.lineno, inner if inner.removeprefix("deuteron.") in MODULES else package
            case ast.ImportFrom(level=level) if level:
                raise AssertionError(f"{path}:{node.lineno}: relative import; write the full name")
            case _:
                pass


@cache
def imports(module: str) -> tuple[tuple[int, str], ...]:
    """(line, dotted name) of everything that a module imports."""
    return tuple(imports_of(MODULES[module]))


def closure(room: str) -> set[str]:
    """Return every package that `room` can reach through the table."""
    reached: set[str] = set()
    ahead = [room]
    while ahead:
        for other in ALLOWED.get(ahead.pop(), set()) - reached:
            reached.add(other)
            ahead.append(other)
    return reached


def ours(module: str) -> set[str]:
    """The modules of the package that a module imports."""
    names = {name.removeprefix("deuteron.") for _, name in imports(module) if name.startswith("deuteron.")}
    return names & MODULES.keys()


def test_every_module_is_in_a_room():
    assert [module for module in MODULES if not room_of(module)] == []


def test_a_module_imports_only_what_its_room_may():
    wrong = []
    for module, (line, name) in ((one, found) for one in MODULES for found in imports(one)):
        room = room_of(module)
        top, _, rest = name.partition(".")
        other = room_of(rest)
        if top == "deuteron" and rest and other not in {room, *COMMON, *ALLOWED.get(room, set())}:
            wrong.append(f"{MODULES[module].relative_to(ROOT)}:{line}: `{room}` may not import `{name}`")
        if top in TORCH and room not in TORCH_ROOMS:
            wrong.append(f"{MODULES[module].relative_to(ROOT)}:{line}: `{room}` may not import `{top}`")
    assert not wrong, "\n".join(wrong)


def test_the_table_allows_nothing_that_no_module_uses():
    used = {(room_of(module), room_of(name)) for module in MODULES for name in ours(module)}
    unused = [(room, other) for room, others in ALLOWED.items() for other in others if (room, other) not in used]
    rooms = {room_of(module) for module in MODULES}
    with_torch = {room_of(module) for module in MODULES for _, name in imports(module) if name.split(".")[0] in TORCH}
    assert (unused, ALLOWED.keys() - rooms, TORCH_ROOMS - with_torch) == ([], set(), set())


def test_imports_point_down_only():
    assert [room for room in ALLOWED if room in closure(room)] == []


def test_no_modules_import_each_other_in_a_circle():
    order = TopologicalSorter({module: ours(module) - {module} for module in MODULES})
    order.prepare()  # raises CycleError, which names the modules


def test_compiler_and_simulator_meet_only_at_the_microcode():
    compiler = {f"npu.neutron.{room}" for room in ("passes", "plan", "convert", "tflite", "ir")}
    assert not closure("npu.neutron.machine") & compiler
    for room in compiler:
        assert "npu.neutron.machine" not in closure(room)


def test_nobody_but_the_table_of_npu_families_knows_the_ids_of_delegates():
    told = re.compile(r"\bBACKEND_ID\b|\"NeutronBackend\"|\.(?:id|delegate_id) [!=]=")
    rooms = ("board.", "builds.", "runtime.", "views.", "api", "cli.")
    asked = [module for module, path in MODULES.items() if module.startswith(rooms) and told.search(path.read_text())]
    assert asked == []


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
    for path in (path for path in tracked_files() if VENDORED not in path.parents):
        content = path.read_bytes()
        for what, pattern in FORBIDDEN.items():
            if hit := re.search(pattern, content):
                line = content.count(b"\n", 0, hit.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {what}: {hit[0].decode(errors='replace')}")
    assert not found, "\n".join(found)


def test_no_source_file_is_longer_than_800_lines():
    sources = [p for p in tracked_files() if p.suffix in {".py", ".c", ".h", ".cpp"}]
    assert not [str(p.relative_to(ROOT)) for p in sources if p.read_bytes().count(b"\n") > 800]


def test_no_public_name_is_a_room():
    """`import deuteron.x` sets the attribute `x` of the package to the module, whatever the package itself offers."""
    assert not set(deuteron.__all__) & {room.partition(".")[0] for room in ALLOWED} - {"__init__"}
