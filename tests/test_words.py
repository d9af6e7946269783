"""The prose of pages, docstrings and C comments: short sentences in the field's terms.

Vale measures sentences, but its Python package downloads a program on first use. Neither proselint nor ruff does.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 35
"""Words of a sentence; writers aim at 25."""

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "spec").glob("*.md")),
]

SOURCES = ("src", "tools", "conformance", "benches", "examples", "tests")
"""Folders and files whose docstrings are checked."""

WORDS = re.compile(
    r"\b(?:whoever|nobody|anew|likewise|beside|so do(?:es)?|and no others?|by which|of its own|told|mend(?:s|ed|ing)?"
    r"|lies|asked of|in the words of|what is wanted|on the way|rooms?|floors|walls|flights|rungs"
    r"|(?:de|re)?quantis\w+)\b",
    re.IGNORECASE,
)
"""Coined words that the glossary has a term for, and phrases that hide the actor."""

INVERTED = re.compile(r"(?:What|Which|Whether|Of)\s")
"""The start of a sentence whose subject comes late; questions may start so."""

ENTRY = re.compile(r"^\s*(?:[*+-]|\d+\.)\s+|^\s{4,}[\w`*./, -]{1,40}:\s+")
"""The start of a list item, or of an entry of `Args:`, which is indented."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of plain paragraphs; code becomes one word, and a link its text."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"``[^`]+``|`[^`]+`", "CODE", re.sub(r"<[^>\n]+>", " ", text))
    yield from (one.strip() for one in re.split(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])", text) if one.strip())


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, headings, list items and cells of tables, without blocks of code."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", text, flags=re.DOTALL | re.MULTILINE)
    held: list[str] = []
    for line in [*text.splitlines(), ""]:
        if held and (not line.strip() or line.startswith(("|", "#")) or ENTRY.match(line)):
            yield " ".join(held)
            held = []
        if line.startswith(("|", "#")):
            yield from (cell.strip(" #|") for cell in re.split(r"(?<!\\)\|", line) if cell.strip(" -:#"))
        elif line.strip():
            held.append(ENTRY.sub("", line, count=1).strip())


def faults(text: str) -> Iterator[str]:
    """Yield the faults of a text's sentences."""
    for paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            words = re.findall(r"[\w'./+-]*\w[\w'./+-]*", sentence)
            if len(words) > LONGEST:
                yield f"{len(words)} words, at most {LONGEST} may be: {sentence}"
            if hit := WORDS.search(sentence):
                yield f"`{hit[0]}` has a plainer form: {sentence}"
            if INVERTED.match(sentence) and sentence.endswith("."):
                yield f"put the subject first: {sentence}"


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each string that stands alone: docstrings, and those below attributes."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, inspect.cleandoc(text)
            case _:
                pass


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of each block comment of a C file, without rows of tables, whose columns have several spaces."""
    text = path.read_text("utf-8")
    for found in re.finditer(r"/\*\*?<?(.*?)\*/|\"(?:\\\\.|[^\"\\\\\n])*\"", text, re.DOTALL):
        lines = [re.sub(r"^\s*\*? ?", "", line) for line in (found[1] or "").strip().split("\n")]
        lines = [line for line in lines if "  " not in line and line.strip() != "@file"]
        kept = (re.sub(r"^@(?:param|return|name)\b", r"\n\n\g<0>", line) for line in lines)
        yield text.count("\n", 0, found.start()) + 1, "\n".join(kept)


def c_files() -> list[Path]:
    """The C and C++ files of the firmware and its tests."""
    files = [f for suffix in ("c", "h", "cpp") for f in sorted((ROOT / "firmware").rglob(f"*.{suffix}"))]
    return [file for file in files if "build" not in file.relative_to(ROOT).parts]


def modules(root: Path) -> list[Path]:
    """The Python files of one of `SOURCES`."""
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    assert files
    return files


@pytest.mark.parametrize("folder", sorted({page.parent.relative_to(ROOT) for page in PAGES}), ids=str)
def test_pages_are_in_plain_words(folder: Path):
    pages = [page for page in PAGES if page.parent == ROOT / folder]
    found = [f"{page}: {fault}" for page in pages for fault in faults(page.read_text("utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", SOURCES)
def test_docstrings_are_in_plain_words(folder: str):
    texts = ((module, *found) for module in modules(ROOT / folder) for found in docstrings(module))
    wrong = [f"{module}:{line}: {fault}" for module, line, text in texts for fault in faults(text)]
    assert not wrong, "\n".join(wrong)


def test_comments_of_c_are_in_plain_words():
    texts = ((file, *found) for file in c_files() for found in comments(file))
    wrong = [f"{file}:{line}: {fault}" for file, line, text in texts for fault in faults(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. A " + "word " * 34 + "end.", "36 words"),
        ("* " + "word " * 18 + "\n  " + "word " * 18, "36 words"),
        ("| " + "word " * 20 + "| " + "word " * 20 + "|", ""),
        ("```\n" + "word " * 40 + "\n```\n", ""),
        ("The plan is for\nwhoever asks.", "`whoever`"),
        ("What it does is clear.", "subject first"),
        ("What does it do?", ""),
        ("`src/a.py` [says so](whoever.md).", ""),
    ],
)
def test_the_check_finds_faults_and_nothing_else(text: str, found: str):
    result = list(faults(text))
    assert found in result[0] if found else not result
