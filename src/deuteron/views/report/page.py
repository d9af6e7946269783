"""The page: template, style, scripts and data put together."""

import base64
import hashlib
import json
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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    folder = files("deuteron.views.report") / "templates"
    charts = files("deuteron.views.report") / "uplot"
    scripts = [
        (charts / "uPlot.iife.js").read_text("utf-8"),
        '"use strict";\n' + "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS),
    ]
    styles = [(charts / "uPlot.min.css").read_text("utf-8"), (folder / "report.css").read_text("utf-8")]
    environment = Environment(
        loader=PackageLoader("deuteron.views.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        title=f"{profile.model} on {profile.on}",
        # In a script element only `<` could end it; what is not ASCII is escaped by JSON itself.
        data=json.dumps(page_data(profile), separators=(",", ":")).replace("<", "\\u003c"),
        scripts=scripts,
        styles=styles,
        script_hashes=[_hash(text) for text in scripts],
        style_hashes=[_hash(text) for text in styles],
        library_home=CHARTS_HOME,
    )


def _hash(text: str) -> str:
    """The name of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
