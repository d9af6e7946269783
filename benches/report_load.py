"""How long the page of a profile takes to load in headless Chromium, from asking for the file to the end of its script.

Builds MobileNetV2 and simulates it unless a profile is given; five loads, the median in milliseconds. The page is drawn
by then but for the canvases, which follow in the next frame.

make bench-report-load
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from ending import finish
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from deuteron import api
from deuteron.views.events import record
from deuteron.views.profile import run
from deuteron.views.profile import subject as builds
from deuteron.views.report.page import html

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("profile", nargs="?", type=Path, help="a profile.json, or the directory that has one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if options.profile is None:
            api.build_model(MODEL, output=work / "build")
            profile = run.profile(builds.read(work / "build"), run.ProfileRequest("sim"))
        else:
            profile = record.read(options.profile)
        page = work / "report.html"
        page.write_text(html(profile), encoding="utf-8")
        times, browser = load_times(page)
        size = page.stat().st_size
    median = statistics.median(times)
    print(f"{profile.model}, {len(profile.stream.events)} events, page of {size:,} bytes")
    print(f"measured: median of {LOADS} loads {median} ms")
    print(f"loads: {', '.join(map(str, times))} ms; {platform.machine()}, {os.cpu_count()} CPUs; {browser}")
    data = {
        "kind": "measured",
        "model": profile.model,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
        "browser": browser,
        "events": len(profile.stream.events),
        "page_bytes": size,
        "loads_ms": times,
        "median_ms": median,
    }
    problems = [f"the page loads in {median} ms, at most {LIMIT_MS} are allowed"]
    return finish(data, problems if median > LIMIT_MS else [], options.json)


if __name__ == "__main__":
    sys.exit(main())
