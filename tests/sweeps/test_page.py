"""The page of a sweep in a browser: filters, linked charts, the smallest chip, and a point in full."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from deuteron import api
from deuteron.errors import OptionError
from deuteron.sweeps import dataset, page, worker


@pytest.fixture
def opened(browser: Chrome, whole: Path, tmp_path: Path) -> Chrome:
    """The page of the sweep; what the browser has logged before is forgotten."""
    file = api.sweep_page(whole, tmp_path / "sweep.html")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(file.as_uri())
    return browser


def _rows(opened: Chrome) -> list[int]:
    """Numbers of the points in the table."""
    return [int(head.text) for head in opened.find_elements(By.CSS_SELECTOR, "#table tbody th")]


def _shown(opened: Chrome) -> list[set[int]]:
    """Numbers of the points in each chart."""
    shown = opened.execute_script("return report.plots.map((plot) => plot.shown.map((point) => point.number))")
    return [set(numbers) for numbers in shown]


def test_it_loads_by_itself_and_shows_the_best(opened: Chrome, whole: Path) -> None:
    assert opened.execute_script("return document.documentElement.dataset.ready") == "yes"
    rows = dataset.rows(whole)
    fitting = {row["number"] for row in rows if row["fits"]}
    assert opened.find_element(By.ID, "subtitle").text == f"{len(rows)} points, {len(fitting)} fit"
    best = {row["number"] for row in api.sweep_table(whole, minimise=("latency", "sram", "flash")).best}
    quality = {
        tuple(row[name] for name in ("model", "latency_us", "sram_bytes", "flash_bytes"))
        for row in rows
        if row["number"] in best
    }
    shown = [row for row in rows if row["number"] in _rows(opened)]
    assert {
        tuple(row[name] for name in ("model", "latency_us", "sram_bytes", "flash_bytes")) for row in shown
    } == quality
    assert _shown(opened) == [fitting, fitting]
    assert "`absent.tflite` does not exist" in opened.find_element(By.ID, "refused-body").text
    asked = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert urls == [opened.current_url]
    assert opened.get_log("browser") == []


def test_filters_reach_charts_table_and_answer(opened: Chrome, whole: Path) -> None:
    Select(opened.find_element(By.CSS_SELECTOR, "[data-axis=model]")).select_by_visible_text("small.tflite")
    Select(opened.find_element(By.CSS_SELECTOR, "[data-axis=clock]")).select_by_visible_text("150,000,000")
    opened.find_element(By.ID, "best-only").click()
    rows = [r for r in dataset.rows(whole) if r["fits"] and r["model"] == "small.tflite" and r["clock"] == 150_000_000]
    wanted = {row["number"] for row in rows}
    assert set(_rows(opened)) == wanted
    assert _shown(opened) == [wanted, wanted]
    (said,) = opened.find_elements(By.CSS_SELECTOR, "#answers li")
    least = min(rows, key=lambda row: (row["sram_bytes"], row["flash_bytes"], row["latency_us"]))
    assert said.text.startswith(f"small.tflite: imxrt700, sram budget {least['sram_budget']:,}")
    assert f"{least['sram_bytes']:,} B of SRAM" in said.text
    opened.execute_script(
        "const box = document.getElementById('at-most'); box.value = 0; box.dispatchEvent(new Event('input'))"
    )
    assert opened.find_element(By.ID, "answers").text == "small.tflite: none of these points is fast enough"
    opened.find_element(By.ID, "all").click()
    assert len(_shown(opened)[0]) > len(wanted)


def test_a_click_on_a_point_shows_it_everywhere(opened: Chrome, whole: Path) -> None:
    number = _rows(opened)[0]
    row = dataset.rows(whole)[number]
    place = opened.execute_script(
        "const plot = report.plots[0]; const point = plot.shown.find((one) => one.number === arguments[0]);"
        "plot.host.scrollIntoView({block: 'center'});"
        "return [plot.plot.valToPos(point.latency_us, 'x'), plot.plot.valToPos(point.sram_bytes, 'y')]",
        number,
    )
    over = opened.find_element(By.CSS_SELECTOR, "[data-goal=sram_bytes] .u-over")
    x, y = place[0] - over.size["width"] / 2, place[1] - over.size["height"] / 2
    ActionChains(opened).move_to_element_with_offset(over, round(x), round(y)).click().perform()
    chosen = dataset.rows(whole)[opened.execute_script("return report.state.chosen.number")]
    assert (chosen["latency_us"], chosen["sram_bytes"]) == (row["latency_us"], row["sram_bytes"])
    assert opened.find_element(By.ID, "command").text == chosen["command"]
    build = str(chosen["command"]).split()[2]
    assert opened.find_element(By.ID, "profile").text == f"deuteron profile {build} --on sim"
    marked = opened.execute_script(
        "return report.plots.map((plot) => plot.plot.data[3].filter((v) => v !== null).length)"
    )
    assert marked == [1, 1]


def test_a_stretch_of_a_chart_is_a_filter(opened: Chrome) -> None:
    before = _shown(opened)[0]
    over = opened.find_element(By.CSS_SELECTOR, "[data-goal=flash_bytes] .u-over")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", over)
    width, height = over.size["width"], over.size["height"]
    actions = ActionChains(opened).move_to_element_with_offset(over, -width // 2 + 2, -height // 2 + 2).click_and_hold()
    actions.move_by_offset(width // 2, height - 4).release().perform()
    inside = _shown(opened)
    assert inside[0] < before
    assert inside[0] == inside[1]


def test_where_it_is_written(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = str(Path(sys.executable).with_name("deuteron"))
    command = [program, "sweep", "show", str(whole), "--page", "-o", str(tmp_path / "a.html")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"wrote `{tmp_path / 'a.html'}`\n"
    with pytest.raises(OptionError, match="exists"):
        api.sweep_page(whole, tmp_path / "a.html")
    monkeypatch.setattr(page, "MOST", 71)
    with pytest.raises(OptionError) as error:
        api.sweep_page(whole, tmp_path / "b.html")
    assert str(error.value) == (
        f"`{whole}` has 72 points, a page shows at most 71\n\n"
        "hint: `deuteron sweep show` without `--page` shows the best points; pandas and DuckDB read all points"
    )
    profile = next(str(row["command"]).split()[2] for row in dataset.rows(whole) if row["command"])
    (tmp_path / profile / "profile_sim").mkdir(parents=True)
    (tmp_path / profile / "profile_sim" / "report.html").touch()
    (tmp_path / dataset.NAME).write_bytes((whole / dataset.NAME).read_bytes())
    rows = dataset.rows(whole)
    for folder, link in (
        (tmp_path, f"{profile}/profile_sim/report.html"),
        (tmp_path / "pages", f"../{profile}/profile_sim/report.html"),
        (tmp_path.parent, f"{quote(tmp_path.name)}/{profile}/profile_sim/report.html"),
    ):
        assert f'"page":"{link}"' in page.html(tmp_path, rows, folder)
        assert (folder / unquote(link)).resolve() == (tmp_path / profile / "profile_sim" / "report.html").resolve()


def test_what_is_ignored_or_not_known(browser: Chrome, whole: Path, tmp_path: Path) -> None:
    """A point without a time is in no chart, last in the table, and betters none that has one; the page says so."""
    (tmp_path / dataset.POINTS).mkdir()
    (tmp_path / dataset.NAME).write_bytes((whole / dataset.NAME).read_bytes())
    base = next(row for row in dataset.rows(whole) if row["fits"])
    base |= {"npu_us": 400.0, "cpu_us": 0.0, "latency_us": 400.0, "sram_budget": 4096, "ignored": "sram_budget, clock"}
    alone: worker.Row = {"npu_us": 0.0, "cpu_us": None, "latency_us": None, "sram_bytes": 1}
    changes: list[worker.Row] = [
        {},
        {"sram_budget": 600, "latency_us": 500.0},
        {"cpu_us": None, "latency_us": None},
        {**alone, "cycles": 6},
        {**alone, "cycles": 5},
        {**alone, "cycles": None},
    ]
    dataset.append(tmp_path, "0.parquet", [{**base, "number": i, **change} for i, change in enumerate(changes)])
    browser.get(api.sweep_page(tmp_path).as_uri())
    notes = browser.find_element(By.ID, "notes").text
    assert f"{base['target']}: " in notes
    told = [line for line in api.sweep_table(tmp_path).lines() if " that fit" in line and "compared with" in line]
    assert notes.splitlines()[-3:] == [f"{line}, and in no chart" for line in told]
    assert "give `clock`" in told[1]
    assert browser.find_element(By.CSS_SELECTOR, "#answers li").text.startswith(
        f"{base['model']}: {base['target']}: 400 µs, "
    )
    assert _shown(browser) == [{0, 1}, {0, 1}]
    assert _rows(browser) == [0, 2, 4, 5] == [row["number"] for row in api.sweep_table(tmp_path).best]
    browser.find_element(By.ID, "best-only").click()
    for numbers in ([0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5]):
        assert _rows(browser) == numbers
        browser.find_element(By.CSS_SELECTOR, "[data-column=latency_us] button").click()
    cells = browser.find_elements(By.CSS_SELECTOR, "#table tbody td:last-child")
    assert {cell.text for cell in cells} == {"-"}
    assert ">400" in [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "#table tbody td")]
