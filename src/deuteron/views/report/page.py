"""The page: template, style, scripts and data put together."""

import base64
import hashlib
import json
from importlib.resources import files

from deuteron.views.events.record import Profile
from deuteron.views.report.data import page_data
from deuteron.views.report.library import HOME, library

FILE = "report.html"

SCRIPTS = ("data.js", "boxes.js", "charts.js", "tables.js", "main.js")
"""In the order in which they need each other."""


def html(profile: Profile) -> str:
    """One HTML file that shows the profile, asks nothing of any network, and runs no scripts but ours.

    Raises:
        MissingToolError: the chart library is not installed.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    folder = files("deuteron.views.report") / "templates"
    charts = library()
    scripts = [charts.script, '"use strict";\n' + "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS)]
    styles = [charts.style, (folder / "report.css").read_text("utf-8")]
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
        library_home=HOME,
    )


def _hash(text: str) -> str:
    """The name of an inline script or style in a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
