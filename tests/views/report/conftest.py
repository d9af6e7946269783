"""Debian's Chromium without a window, and pages of profiles in it."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from deuteron.views.events.record import Profile
from deuteron.views.report.page import html

Open = Callable[[Profile], webdriver.Chrome]


@pytest.fixture(scope="session")
def browser() -> Iterator[webdriver.Chrome]:
    """One browser for all tests of a process."""
    options = webdriver.ChromeOptions()
    options.binary_location = _found("chromium")
    arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,1000"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    for argument in arguments:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(_found("chromedriver")))
    yield driver
    driver.quit()


def _found(program: str) -> str:
    path = shutil.which(program)
    assert path, f"`{program}` is missing: `tools/debian-packages.sh boards` installs it"
    return path


@pytest.fixture
def show(browser: webdriver.Chrome, tmp_path: Path) -> Open:
    """Writes the page of a profile and opens it; what the browser has logged before is forgotten."""

    def show_page(profile: Profile) -> webdriver.Chrome:
        file = tmp_path / "report.html"
        file.write_text(html(profile), encoding="utf-8")
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(file.as_uri())
        return browser

    return show_page
