"""How Sphinx makes the site out of the pages as they stand; `make docs` runs it, and warnings are errors.

The folder of the sources is the project's own, so that links between pages, and from them to files, are the same on the
site and in a checkout. The reference of the Python interface imports `deuteron`, which needs no PyTorch.
"""

import re
from importlib.metadata import version as installed_version
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
DIRECTORY_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)#:\s]+)\)")

project = "Deuteron"
author = "Deuteron's authors"
copyright = "Deuteron's authors"  # noqa: A001
version = release = installed_version("deuteron")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "spec/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"]
source_suffix = {".md": "markdown"}

myst_heading_anchors = 6
# A docstring has names between single backticks.
default_role = "code"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "Deuteron"
html_copy_source = False
html_additional_pages = {"index": "root.html"}
templates_path = ["_templates"]


def folders_as_text(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Make plain text of links to folders, which a site has no page for; they must be there."""
    page = ROOT / f"{docname}.md"

    def text_of(link: "re.Match[str]") -> str:
        return link[1] if (page.parent / link[2]).is_dir() else link[0]

    source[0] = DIRECTORY_LINK.sub(text_of, source[0])


def setup(app: Sphinx) -> None:
    """Connect what this page defines, and say which languages of blocks are plain text: tables that tests read."""
    for name in ("imports", "torch"):
        app.add_lexer(name, TextLexer)
    app.connect("source-read", folders_as_text)
