"""The page in a browser: what it shows, what mouse and keyboard do, and that nothing leaves it."""

import json
from dataclasses import replace

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait
from tests.views.profile.example_profile import (
    DEPTH_FIRST,
    STRIPE,
    npu_alone,
    one_of_three_runs_held_up,
    striped,
    with_an_empty_kernel,
)
from tests.views.report.conftest import Open
from tests.views.report.example_pages import HOSTILE, hostile, profile

from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.record import NOT_MEASURED, Estimate, Profile


def one(page: Chrome, selector: str) -> WebElement:
    return page.find_element(By.CSS_SELECTOR, selector)


def texts(page: Chrome, selector: str) -> list[str]:
    """Markup of the visible parts."""
    return [found.text for found in page.find_elements(By.CSS_SELECTOR, selector) if found.is_displayed()]


def rows(page: Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, "#table tbody tr")


def row_names(page: Chrome) -> list[str]:
    return texts(page, "#table tbody th")


def chosen_rows(page: Chrome) -> list[str]:
    return texts(page, "#table tr.chosen th")


def chosen_boxes(page: Chrome, chart: str) -> list[str]:
    return page.execute_script(
        f"return report.{chart}.boxes.filter((box) => report.view.isChosen(box)).map((box) => box.label)"
    )


def stretch(page: Chrome) -> list[float]:
    return page.execute_script("return [report.time.from, report.time.to]")


def on_timeline(page: Chrome, label: str) -> tuple[WebElement, int, int]:
    """The timeline, and the middle of a box on it, from the canvas's own middle as Selenium counts."""
    canvas = one(page, "#timeline-chart canvas")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    place = page.execute_script(
        "const box = report.timeline.boxes.find((box) => box.label === arguments[0]);"
        "const {left, top, width, height} = report.timeline.place(box);"
        "return [left + width / 2, top + height / 2]",
        label,
    )
    return canvas, round(place[0] - canvas.size["width"] / 2), round(place[1] - canvas.size["height"] / 2)


def click_event(page: Chrome, label: str) -> None:
    canvas, x, y = on_timeline(page, label)
    ActionChains(page).move_to_element_with_offset(canvas, x, y).click().perform()


def problems(page: Chrome) -> list[str]:
    return [entry["message"] for entry in page.get_log("browser")]


def test_it_loads_by_itself(show: Open):
    page = show(profile())
    assert page.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert page.title == "net on sim: where the time goes"
    assert one(page, "#subtitle").text == "for imxrt700, on sim, simulated, 1 run"
    assert set(texts(page, ".kind")) == {"simulated"}
    asked = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert urls == [page.current_url]
    assert problems(page) == []


def test_the_policy_lets_nothing_out(show: Open):
    page = show(profile())
    page.get_log("performance")
    refused = page.execute_async_script(
        "const done = arguments[0]; const image = new Image(); image.src = 'http://localhost:9/x.png';"
        "image.onerror = () => fetch('http://localhost:9/x').then(() => done('sent'), (error) => done(error.name));"
    )
    assert refused == "TypeError"
    asked = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    sent = [event for event in asked if event["method"] == "Network.responseReceived"]
    assert sent == []
    assert sum("Content Security Policy" in message for message in problems(page)) >= 2


def test_tables_sort_by_every_column(show: Open):
    page = show(profile())
    assert row_names(page)[:2] == ["npu 0 #0 conv2d_s8", "npu 0 #1 max_pool_s8"]  # 510 and 365 ticks
    head = one(page, "#table th[data-column=ticks]")
    assert head.get_attribute("aria-sort") == "descending"
    head.find_element(By.TAG_NAME, "button").click()
    names = row_names(page)
    assert names[-1] == "npu 0 #0 conv2d_s8"
    assert one(page, "#table th[data-column=ticks]").get_attribute("aria-sort") == "ascending"
    assert page.switch_to.active_element.text.startswith("µs")  # the keyboard stays where it was
    page.switch_to.active_element.click()
    assert row_names(page)[0] == "cpu quantized_decomposed::quantize_per_tensor"  # as it ran
    one(page, "#table th[data-column=name] button").click()
    assert row_names(page) == sorted(names)


def test_each_table_has_its_tab(show: Open):
    page = show(profile())
    expected = {
        "module": ["net", "block", "block.conv", "block.pool"],
        "line": ["model.py:7", "model.py:8"],
        "operator": ["CONV_2D (aten_convolution_default)", "MAX_POOL_2D (aten_max_pool2d_default)"],
        "kernel": ["npu 0 #0 conv2d_s8", "npu 0 #1 max_pool_s8"],
    }
    for name, rows in expected.items():
        one(page, f"#tab-{name}").click()
        assert row_names(page)[: len(rows)] == rows
        assert one(page, "[role=tab][aria-selected=true]").get_attribute("id") == f"tab-{name}"
    page.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert one(page, "[role=tab][aria-selected=true]").get_attribute("id") == "tab-module"


def test_search_finds_everywhere(show: Open):
    page = show(profile())
    field = one(page, "#query")
    field.send_keys("BLOCK.POOL")
    assert one(page, "#found").text == "1 part, 3 events, 1 tensor"
    assert row_names(page) == ["npu 0 #1 max_pool_s8"]
    seen = page.execute_script(
        "return report.timeline.boxes.filter((box) => !report.view.isFaint(box)).map((box) => box.label)"
    )
    assert seen == ["wait: channel 0", "dispatch: max_pool_s8", "max_pool_s8 #1"]
    field.send_keys(Keys.ENTER)
    assert one(page, "#found").text == "1 of 3 events"
    assert one(page, "#path-title").text == "max_pool_s8 #1"
    assert "MACs, exact" in one(page, "#path .facts").text
    field.send_keys(Keys.ENTER)
    assert one(page, "#path-title").text == "wait: channel 0"
    shown = one(page, "#path .facts").text
    assert "for\nmax_pool_s8 #1" in shown
    assert "MACs, exact" not in shown
    field.send_keys(Keys.ESCAPE)
    assert len(row_names(page)) > 2
    assert one(page, "#path-title").text == "Nothing selected"
    one(page, "body").send_keys("/")
    assert page.switch_to.active_element == field


def test_search_counts_what_no_table_has(show: Open):
    page = show(profile())
    one(page, "#query").send_keys("transfer")
    assert one(page, "#found").text == "0 parts, 1 event, 0 tensors"


def test_clicking_an_event_shows_its_way_and_marks_it_everywhere(show: Open):
    page = show(profile())
    click_event(page, "conv2d_s8 #0")
    assert one(page, "#path-title").text == "conv2d_s8 #0"
    steps = {item.find_element(By.TAG_NAME, "h3").text: [b.text for b in item.find_elements(By.TAG_NAME, "button")]
             for item in page.find_elements(By.CSS_SELECTOR, ".way li")}  # fmt: skip
    assert steps == {
        "Kernel or operator": ["npu 0 #0 conv2d_s8"],
        "TFLite operator": ["CONV_2D #0 of npu 0"],
        "Edge operator": ["aten_convolution_default"],
        "Module": ["block.conv"],
        "Source line": ["model.py:7"],
    }
    assert texts(page, ".way code") == ["x = self.conv(x)"]
    shown = one(page, "#path .facts").text
    assert "time, simulated\n500 µs" in shown.replace(".00", "")
    assert "NPU cycles at best, simulated\n500" in shown
    assert chosen_rows(page) == ["npu 0 #0 conv2d_s8"]
    assert chosen_boxes(page, "timeline") == ["npu 0", "dispatch: conv2d_s8", "conv2d_s8 #0"]
    assert chosen_boxes(page, "flame") == ["net", "block", "conv", "conv2d_s8 #0"]
    assert chosen_boxes(page, "memory[0]") == ["a"]
    for name in ("module", "line", "operator"):
        one(page, f"#tab-{name}").click()
        assert chosen_rows(page)
    one(page, ".way li:nth-child(4) button").click()
    assert one(page, "#path-title").text == "block.conv"


def test_zoom_is_shared_and_goes_back(show: Open):
    page = show(profile())
    canvas, x, y = on_timeline(page, "conv2d_s8 #0")
    ActionChains(page).move_to_element_with_offset(canvas, x - 60, y).click_and_hold().move_by_offset(
        120, 0
    ).release().perform()
    low, high = stretch(page)
    assert 110 < low < 360 < high < 610
    assert page.execute_script("return [report.use.plot.scales.x.min, report.use.plot.scales.x.max]") == [low, high]
    ActionChains(page).double_click(canvas).perform()
    assert stretch(page) == [0, 1000]
    one(page, "#timeline [aria-label='zoom in']").click()
    assert stretch(page) == [250, 750]


def test_everything_can_be_done_by_keyboard(show: Open):
    page = show(profile())
    reached: list[str] = []
    for _ in range(120):
        page.switch_to.active_element.send_keys(Keys.TAB)
        if page.execute_script("return document.activeElement === document.body"):
            break  # the last has been left
        now = page.execute_script(
            "const at = document.activeElement; const style = getComputedStyle(at);"
            "return [at.id || at.getAttribute('aria-label') || at.textContent, style.outlineStyle, style.outlineWidth]"
        )
        assert (now[1], now[2]) == ("solid", "3px"), now
        reached.append(now[0])
    for name in ("query", "theme", "Timeline", "zoom in", "timeline of events", "memory scratch of npu 0 over time",
                 "modules, as wide as their time", "tab-kernel", "share", "npu 0 #0 conv2d_s8",
                 "quantized_decomposed::quantize_per_tensor", "Versions and clocks"):  # fmt: skip
        assert name in reached
    canvas = one(page, "#timeline-chart canvas")
    page.execute_script("arguments[0].focus()", canvas)
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ENTER):
        canvas.send_keys(key)
    assert one(page, "#path-title").text == "conv2d_s8 #0"
    canvas.send_keys("+")
    low, high = stretch(page)
    assert high - low == pytest.approx(500)
    canvas.send_keys(Keys.SHIFT + Keys.ARROW_RIGHT)
    assert stretch(page)[0] > low
    canvas.send_keys("0")
    assert stretch(page) == [0, 1000]
    canvas.send_keys(Keys.END)
    assert "max_pool_s8 #1" in page.execute_script("return document.getElementById('said').textContent")
    canvas.send_keys(Keys.ESCAPE)
    assert one(page, "#path-title").text == "Nothing selected"
    page.execute_script("arguments[0].focus()", one(page, "#table tbody button"))
    page.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    page.switch_to.active_element.send_keys(Keys.ENTER)
    assert one(page, "#path-title").text == "npu 0 #1 max_pool_s8"


def colours(page: Chrome) -> list[object]:
    """The page's background, and the pixel in the middle of a kernel."""
    page.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return page.execute_script(
        "const box = report.timeline.boxes.find((box) => box.label === 'conv2d_s8 #0');"
        "const {left, top, width, height} = report.timeline.place(box);"
        "const scale = devicePixelRatio, pen = report.timeline.canvas.getContext('2d');"
        "const pixel = pen.getImageData((left + width - 8) * scale, (top + height / 2) * scale, 1, 1).data;"
        "return [getComputedStyle(document.body).backgroundColor, Array.from(pixel)]"
    )


def test_the_theme_follows_the_system_until_it_is_chosen(show: Open):
    page = show(profile())
    theme = one(page, "#theme")

    def system(scheme: str) -> None:
        page.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        )
        WebDriverWait(page, 10).until(lambda _: theme.text == ("Dark theme" if scheme == "light" else "Light theme"))

    system("light")
    light = colours(page)
    assert light == ["rgb(255, 255, 255)", [0x49, 0x92, 0xEF, 255]]
    system("dark")
    dark = colours(page)
    assert dark == ["rgb(20, 23, 27)", [0x2D, 0x67, 0xB4, 255]]
    theme.click()
    assert theme.text == "Dark theme"
    assert colours(page) == light
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours(page) == light


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text(show: Open, name: str):
    page = show(hostile(name))
    assert one(page, "h1").get_attribute("textContent") == name
    page.execute_script("report.timeline.choose(report.timeline.boxes.find((box) => box.colour === 'kernel'))")
    assert one(page, ".way li:nth-child(3) button").get_attribute("textContent") == name
    assert one(page, ".way code").get_attribute("textContent") == name
    for tab in ("module", "line", "operator", "kernel"):
        page.execute_script(f"document.getElementById('tab-{tab}').click()")
    field = one(page, "#query")
    page.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", field, name
    )
    assert "tensor" in one(page, "#found").text
    assert page.execute_script("return window.hacked") is None
    assert page.execute_script("return document.querySelectorAll('img, svg, iframe, object').length") == 0
    assert page.execute_script("return document.scripts.length") == 3
    wide = page.execute_script("const root = document.documentElement; return [root.scrollWidth, root.clientWidth]")
    assert wide[0] <= wide[1]
    assert problems(page) == []


def without_kernels() -> Profile:
    made = profile()
    kept = tuple(e for e in made.stream.events if e.kind in (SpanKind.RUN, SpanKind.DELEGATE, SpanKind.OPERATOR))
    return replace(made, stream=replace(made.stream, events=kept, measure=Measure.MEASURED))


def test_kernels_that_nobody_recorded_are_drawn_equally_wide(show: Open):
    page = show(without_kernels())
    assert one(page, "#memory-note").text.startswith("When each kernel ran is not recorded")
    assert page.execute_script("return report.memory[0].boxes.map((box) => [box.from, box.to])") == [
        [100, 990],
        [545, 990],
    ]
    assert set(texts(page, ".kind")) == {"measured"}


def test_a_kernel_that_took_no_tick_was_recorded(show: Open):
    page = show(replace(profile(), stream=with_an_empty_kernel().stream))
    assert not one(page, "#memory-note").is_displayed()
    assert page.execute_script("return report.memory[0].boxes.map((box) => [box.from, box.to])") == [
        [110, 990],
        [710, 990],
    ]


def test_counted_instructions_are_no_time(show: Open):
    made = profile()
    page = show(replace(made, stream=replace(made.stream, measure=Measure.COUNTED)))
    assert set(texts(page, ".kind")) == {"counted instructions, no time of any chip"}
    assert one(page, "#table th[data-column=ticks]").text.startswith("instr.")
    assert one(page, "#summary").text.splitlines()[:2] == ["one run, counted", "1,000 instr."]


def test_estimates_have_columns_where_there_are_some(show: Open):
    found = profile()
    columns = "#table thead [data-column=estimate], #table thead [data-column=ratio]"
    assert texts(show(found), columns) == []
    kernel = next(event for event in found.stream.median().events if event.kind is SpanKind.KERNEL)
    estimate = Estimate(kernel.partition, kernel.index, 2 * kernel.ticks)
    page = show(replace(found, estimates=(estimate,)))
    assert texts(page, columns) == ["estimate", "ratio"]
    heads = texts(page, "#table thead th")
    ratios = [row.find_elements(By.CSS_SELECTOR, "th, td")[heads.index("ratio")].text for row in rows(page)]
    assert [ratio for ratio in ratios if ratio] == ["0.50"]


def test_operators_that_nobody_simulates_are_told(show: Open):
    page = show(npu_alone())
    assert "operators on the CPU, not simulated, not in these times\n1" in one(page, "#summary").text


def test_what_runs_depth_first_is_told(show: Open):
    assert not one(show(profile()), "#depth-first").is_displayed()
    made = profile()
    (partition,), (cut,) = made.partitions, striped().partitions
    page = show(replace(made, partitions=(replace(cut, memories=partition.memories),)))
    assert texts(page, "#depth-first li") == [f"npu 0: {told.strip()}" for told in DEPTH_FIRST]
    assert page.execute_script("return pathOf({parts: [1], about: []}, view)[0].textContent").count(STRIPE) == 1


def test_state_is_listed(show: Open):
    assert "State" not in one(show(profile()), "#sizes-body").text
    page = show(replace(profile(), state=("h: int8 [1, 8], 8 B",)))
    assert texts(page, "#sizes-body li") == ["h: int8 [1, 8], 8 B"]


def test_runs_are_chosen(show: Open):
    made = profile()
    later = tuple(replace(e, run=1, start=2 * e.start, stop=2 * e.stop) for e in made.stream.events)
    page = show(replace(made, stream=replace(made.stream, runs=2, events=(*made.stream.events, *later))))
    assert stretch(page) == [0, 1000]
    one(page, "#run option:nth-child(2)").click()
    assert stretch(page) == [0, 2000]
    assert one(page, "#summary dd").text == "1.00 ms"


def test_of_several_runs_the_median_is_shown_everywhere(show: Open):
    page = show(one_of_three_runs_held_up())
    assert one(page, "#summary").text.splitlines()[:4] == [
        "median of 3 runs, simulated", "1.10 ms", "shortest and longest run", "1.00 ms to 90.00 ms",
    ]  # fmt: skip
    assert stretch(page) == [0, 1100]
    assert texts(page, "#run option") == ["1, the median", "2", "3"]
    assert page.execute_script("return Math.max(...report.flame.boxes.map((box) => box.to))") == 1100


def test_an_empty_profile_is_a_page(show: Open):
    made = profile()
    stream = replace(made.stream, runs=0, events=())
    page = show(replace(made, partitions=(), cpu_ops=(), sections=(), stream=stream, quality=NOT_MEASURED))
    assert page.execute_script("return document.documentElement.dataset.ready") == "yes"
    assert not one(page, "#memory").is_displayed()
    assert "No firmware was linked" in one(page, "#sizes-body").text
    assert "The build has not measured" in one(page, "#quality-body").text
    assert problems(page) == []


def test_lists_at_the_end(show: Open):
    page = show(profile())
    assert one(page, "#sizes-body tbody").text.splitlines() == [
        "driver 3,538 59.8 %",
        "kernels conv2d_s8 2,382 40.2 %",
        "all 5,920 100.0 %",
    ]
    assert one(page, "#quality-body").text.splitlines() == [
        "The figure, on 20 samples, of program.",
        "output 0: 37.0 dB",
        "layer of quantized PyTorch, worst first own so far line",
        "aten::relu relu 42.1 37.0 model.py:7",
    ]
    assert "npu 0: 2 kernel calls for 1 CONV_2D, 1 MAX_POOL_2D" in one(page, "#placement-body").text
    assert "the build does not say" in one(page, "#placement-body").text
    for title in page.find_elements(By.CSS_SELECTOR, "#made-body details:not([open]) summary"):
        title.click()
    made = one(page, "#made-body").text
    assert "deuteron\n0" in made
    assert "use_profiling\nTrue" in made
    assert "program that ran\n" + "ab" * 32 in made
    assert "Permission is hereby granted" in one(page, "#made pre").get_attribute("textContent")
