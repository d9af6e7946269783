"""The page: template, style, scripts and data put together."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files

from deuteron.views.events.record import Profile
from deuteron.views.report.data import page_data

FILE = "report.html"

SCRIPTS = ("data.js", "boxes.js", "charts.js", "tables.js", "main.js")
"""In the order in which they need each other."""

CHARTS_HOME = "https://github.com/leeoniya/uPlot"
"""Where the chart library in `uplot/` is from, unmodified; its licence lies beside it."""


def html(profile: Profile) -> str:
    """One HTML file that shows the profile, asks nothing of any network, and runs no scripts but ours."""
    return assembled(__package__ or "", "report.html", SCRIPTS, f"{profile.model} on {profile.on}", page_data(profile))


def assembled(package: str, template: str, names: Sequence[str], title: str, data: object) -> str:
    """A page of this style, with the charts' library.

    Args:
        package: whose `templates/` have the template and the scripts.
        template: its name; it extends `page.html`.
        names: of the scripts, in the order in which they need each other.
        title: of the page.
        data: what the scripts find, as JSON.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    own = files(package) / "templates"
    folder = files("deuteron.views.report")
    charts = folder / "uplot"
    scripts = [
        (charts / "uPlot.iife.js").read_text("utf-8"),
        '"use strict";\n' + "\n".join((own / name).read_text("utf-8") for name in names),
    ]
    styles = [(charts / "uPlot.min.css").read_text("utf-8"), (folder / "templates" / "report.css").read_text("utf-8")]
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__ or "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(
        title=title,
        # In a script element only `<` could end it; what is not ASCII is escaped by JSON itself.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        scripts=scripts,
        styles=styles,
        script_hashes=[_hash(text) for text in scripts],
        style_hashes=[_hash(text) for text in styles],
        library_home=CHARTS_HOME,
        library_licence=(charts / "LICENSE").read_text("utf-8").strip(),
    )


def _hash(text: str) -> str:
    """The name of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
