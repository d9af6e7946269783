"""How long the page of a profile takes to load in headless Chromium, from asking for the file to the end of its script.

Builds MobileNetV2 and simulates it unless a profile is given; five loads, the median in milliseconds. The page is drawn
by then but for the canvases, which follow in the next frame.

make bench-report-load
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from deuteron import api
from deuteron.profile import record
from deuteron.profiling import build as builds
from deuteron.profiling import run
from deuteron.report.page import html

MODEL = "mobilenet_v2"
LOADS = 5
LIMIT_MS = 1000

LOADED = "const [load] = performance.getEntriesByType('navigation'); return [load.loadEventEnd, navigator.userAgent]"


def load_times(file: Path) -> tuple[list[float], str]:
    """Milliseconds of each load, and the browser that took them."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--disable-gpu", "--window-size=1400,1000"):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        times, name = [], ""
        for _ in range(LOADS):
            driver.get(file.as_uri())
            taken, name = driver.execute_script(LOADED)
            times.append(round(taken, 1))
        return times, name
    finally:
        driver.quit()


def main() -> int:
    """Prints the times; 1 when the median is above the limit."""
    parser = argparse.ArgumentParser()
    parser.add_argument("profile", nargs="?", type=Path, help="a profile.json, or the directory that has one")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if arguments.profile is None:
            api.build_model(MODEL, output=work / "build")
            profile = run.profile(builds.read(work / "build"), run.Wanted("sim"))
        else:
            profile = record.read(arguments.profile)
        page = work / "report.html"
        page.write_text(html(profile), encoding="utf-8")
        times, browser = load_times(page)
        result = {
            "model": profile.model,
            "kind": "measured",
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
            "browser": browser,
            "events": len(profile.stream.events),
            "page_bytes": page.stat().st_size,
            "loads_ms": times,
            "median_ms": statistics.median(times),
            "limit_ms": LIMIT_MS,
        }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n", encoding="utf-8")
    return 0 if result["median_ms"] < LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
