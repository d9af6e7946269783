"""Assembles the page from template, style, scripts and data."""

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files

from deuteron.views.events.record import Profile
from deuteron.views.report.data import page_data

FILE = "report.html"

SCRIPTS = ("data.js", "boxes.js", "charts.js", "tables.js", "main.js")
"""Scripts in order of dependency."""

CHARTS_HOME = "https://github.com/leeoniya/uPlot"
"""Origin of the unmodified chart library in `uplot/`, whose licence is next to it."""


def html(profile: Profile) -> str:
    """Return one HTML file that shows the profile, makes no network requests, and runs only our scripts."""
    return assembled(__package__ or "", "report.html", SCRIPTS, f"{profile.model} on {profile.on}", page_data(profile))


def assembled(package: str, template: str, names: Sequence[str], title: str, data: object) -> str:
    """Return a page of this style, with the chart library.

    Args:
        package: whose `templates/` have the template and the scripts.
        template: its name; it extends `page.html`.
        names: names of the scripts, in order of dependency.
        title: title of the page.
        data: data of the scripts, as JSON.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    own = files(package) / "templates"
    folder = files("deuteron.views.report")
    charts = folder / "uplot"
    scripts = [
        (charts / "uPlot.iife.min.js").read_text("utf-8"),
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
        # In a script element only `<` could end it; JSON escapes non-ASCII characters itself.
        data=json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        scripts=scripts,
        styles=styles,
        script_hashes=[_hash(text) for text in scripts],
        style_hashes=[_hash(text) for text in styles],
        library_home=CHARTS_HOME,
        library_licence=(charts / "LICENSE").read_text("utf-8").strip(),
    )


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
