"""The page for those who see it otherwise, or not at all: contrast, names for screen readers, keys, both themes."""

import re
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.views.report.conftest import Open
from tests.views.report.example_pages import profile

import deuteron.views.report

STYLE = Path(deuteron.views.report.__file__).parent / "templates" / "report.css"


def colours(theme: str) -> dict[str, str]:
    """The colours of a theme by name."""
    light, dark = re.findall(r"^:root.*?\{(.*?)^\}", STYLE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"--([\w-]+): (#\w{6})", {"light": light, "dark": dark}[theme]))


def luminance(colour: str) -> float:
    """As WCAG 2.2 defines it."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_drawn_and_written_can_be_told_from_what_is_behind(theme: str):
    found = colours(theme)
    boxes = {name: colour for name, colour in found.items() if name.startswith("box-")}
    assert len(boxes) == 14
    drawn = {name: contrast(found[name], found["page"]) for name in (*boxes, "focus", "mark", "faint")}
    assert {name: ratio for name, ratio in drawn.items() if ratio < 3} == {}
    written = {name: contrast(colour, found["on-box"]) for name, colour in boxes.items()}
    written |= {
        f"{n} on {b}": contrast(found[n], found[b]) for n in ("text", "faint", "link") for b in ("page", "panel")
    }
    assert {name: ratio for name, ratio in written.items() if ratio < 4.5} == {}
    assert min(contrast(colour, found["mark"]) for colour in boxes.values()) >= 3  # a chosen event's frame


def one(page: Chrome, selector: str):
    return page.find_element(By.CSS_SELECTOR, selector)


def test_a_drawing_says_what_is_in_it(show: Open):
    page = show(profile())
    said: dict[str | None, str | None] = {}
    for canvas in page.find_elements(By.CSS_SELECTOR, "canvas.boxes"):
        summary, keys = (canvas.get_attribute("aria-describedby") or "").split()
        assert keys == "keys"
        said[canvas.get_attribute("aria-label")] = one(page, f"#{summary}").get_attribute("textContent")
    assert said == {
        "timeline of events": "events: 11, rows: 4, in all 1.00 ms",
        "memory scratch of npu 0 over time": "tensors: 2, rows: 2, in all 1.00 ms",
        "modules, as wide as their time": "modules, kernels and operators: 10, rows: 4, in all 1.00 ms",
    }


def test_tabs_name_what_they_show(show: Open):
    page = show(profile())
    tabs = page.find_elements(By.CSS_SELECTOR, "[role=tab]")
    assert {one(page, f"#{tab.get_attribute('aria-controls')}").get_attribute("role") for tab in tabs} == {"tabpanel"}


def focused(page: Chrome) -> str | None:
    return page.switch_to.active_element.get_attribute("id")


def test_a_key_goes_to_what_is_chosen_and_back(show: Open):
    page = show(profile())
    tab = one(page, "#tab-kernel")
    page.execute_script("arguments[0].focus()", tab)
    tab.send_keys("p")
    assert focused(page) == "path-title"
    page.switch_to.active_element.send_keys("p")
    assert focused(page) == "tab-kernel"
    one(page, "#table tbody tr").click()
    one(page, "#path-title").send_keys("p")
    page.execute_script("arguments[0].focus()", one(page, ".way li:nth-child(4) button"))
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert one(page, "#path-title").text == "block.conv"
    assert focused(page) == "path-title"  # what was pressed is gone, the keyboard is not
    field = one(page, "#query")
    field.send_keys("p")
    assert field.get_attribute("value") == "p"


def test_each_change_is_announced_once(show: Open):
    page = show(profile())
    assert one(page, "#found").get_attribute("aria-live") == "off"
    said = one(page, "#said")
    field = one(page, "#query")
    field.send_keys("conv2d")
    assert said.get_attribute("textContent") == one(page, "#found").text != ""
    field.send_keys(Keys.ENTER)
    assert said.get_attribute("textContent") == f"{one(page, '#found').text}: conv2d_s8 #0"


def pixels(page: Chrome, picture: str) -> dict[str, int]:
    """How many pixels of a picture (PNG in base64) have each colour; the page is left for an empty one."""
    page.get("about:blank")
    counted: dict[str, int] = page.execute_async_script(
        """
        const done = arguments[1];
        const image = new Image();
        image.onload = () => {
          const pen = new OffscreenCanvas(image.width, image.height).getContext("2d");
          pen.drawImage(image, 0, 0);
          const counts = {};
          for (const word of new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer)) {
            counts[word] = (counts[word] ?? 0) + 1;
          }
          done(counts);
        };
        image.src = `data:image/png;base64,${arguments[0]}`;
        """,
        picture,
    )
    return {f"#{int(word).to_bytes(4, 'little')[:3].hex()}": count for word, count in counted.items()}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_screenshot_has_the_drawings_of_its_theme(show: Open, theme: str):
    page = show(profile())
    feature = {"name": "prefers-color-scheme", "value": theme}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    page.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    size = page.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    whole = {"captureBeyondViewport": True, "clip": {**size, "scale": 1}}
    picture = page.execute_cdp_cmd("Page.captureScreenshot", whole)["data"]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    found, named = pixels(page, picture), colours(theme)
    assert max(found, key=lambda colour: found[colour]) == named["page"]
    for name in ("delegate", "kernel", "kernel-sram", "operator", "block-0"):
        assert found.get(named[f"box-{name}"], 0) > 500, name
    assert len(found) > 100  # letters and lines have smooth edges
