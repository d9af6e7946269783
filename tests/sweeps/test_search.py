"""A search looks at some points of a sweep, the same ones however often it is ended, and finds the best among them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.conftest import files

from deuteron import api, extras
from deuteron.builds import parameters
from deuteron.cli.app import app
from deuteron.cli.printer import Printer
from deuteron.errors import DeuteronError, OptionError
from deuteron.sweeps import dataset, lowering, spec, worker

AXES: dict[str, Any] = {
    "models": ["small.tflite", "large.tflite"],
    "targets": ["imxrt700"],
    "sram_budget": [f"{size}Ki" for size in (4, 8, 16, 32)],
    "flash_bandwidth": ["20MB/s", "400MB/s"],
    "clock": [f"{clock}M" for clock in range(100, 300, 25)],
}
GOALS = ("latency", "sram")


@pytest.fixture(scope="module")
def axes(folder: Path) -> dict[str, Any]:
    """A space of 128 points."""
    return {**AXES, "models": [str(folder / name) for name in AXES["models"]]}


@pytest.mark.full
def test_it_goes_on_where_it_was_ended_and_finds_the_fastest(axes: dict[str, Any], tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = api.sweep(axes, whole, workers=1, search=24, minimise=GOALS)
    assert (done.points, done.kept) == (24, 0)
    for count, kept in ((11, 0), (24, 11)):
        again = api.sweep(axes, parts, workers=1, search=count, minimise=GOALS)
        assert (again.points, again.kept) == (count, kept)
    rows, others = ({row["number"]: row for row in dataset.rows(path)} for path in (whole, parts))
    assert rows == others
    assert api.sweep(axes, whole, workers=1, search=24, minimise=GOALS).kept == 24

    everything = tmp_path / "everything"
    assert api.sweep(axes, everything, workers=1).points == 128
    fastest = min(float(str(row["latency_us"])) for row in dataset.rows(everything) if row["fits"])
    assert fastest in {row["latency_us"] for row in rows.values()}
    by_number = {row["number"]: row for row in dataset.rows(everything)}
    assert all({**by_number[number], "command": None} == {**row, "command": None} for number, row in rows.items())


@pytest.mark.full
def test_points_of_a_model_that_has_changed_are_looked_at_again(folder: Path, tmp_path: Path) -> None:
    model, directory = tmp_path / "a.tflite", tmp_path / "sweep"
    asked = {**AXES, "models": [str(model)], "targets": "imxrt700"}
    model.write_bytes((folder / "small.tflite").read_bytes())
    api.sweep(asked, directory, workers=1, search=8)
    before = files(directory)
    model.write_bytes((folder / "large.tflite").read_bytes())
    assert api.sweep(asked, directory, workers=1, search=8).kept == 0
    assert files(directory).keys() & before.keys() == {"sweep.json"}


def test_fewer_points_than_are_asked_for(axes: dict[str, Any], tmp_path: Path) -> None:
    few = {
        **axes,
        "targets": "imxrt700",
        "sram_budget": ["1Mi"],
        "flash_bandwidth": ["20MB/s"],
        "clock": ["100M", "200M"],
    }
    assert api.sweep(few, tmp_path / "sweep", workers=1, search=9).points == 4


def test_a_model_with_parameters_is_many_models(tmp_path: Path) -> None:
    parsed = spec.parse(
        {"models": ["net.py:net(width=[1, 2], size=(3, 4), act=['relu', 'elu'])", "digits"], "targets": "imxrt700"},
        tmp_path,
        "here",
    )
    names = [f"net.py:net(width={width}, size=(3, 4), act={act!r})" for width in (1, 2) for act in ("relu", "elu")]
    assert parsed.axes["model"] == (*names, "digits")
    assert [parsed.point(number) for number in range(parsed.count)] == [*parsed.points()]
    (tmp_path / "net.py").write_text("a = 1")
    jobs = {lowering.job_of(point, tmp_path, tmp_path, None).key for point in parsed.points()}
    (tmp_path / "net.py").write_text("a = 2")
    assert jobs.isdisjoint(lowering.job_of(point, tmp_path, tmp_path, None).key for point in parsed.points()[:4])


def test_more_models_than_can_be_listed(tmp_path: Path) -> None:
    """Ten parameters of ten values: no caller waits until all are there."""
    ten = ", ".join(f"{name}={[*range(10)]}" for name in "abcdefghij")
    with pytest.raises(OptionError) as error:
        spec.parse({"models": ["digits", f"net.py:net({ten})"], "targets": "imxrt700"}, tmp_path, "here")
    assert str(error.value) == (
        "here: `models` has more than 50,000 values\n\nhint: give fewer values, for example of parameters"
    )


WRONG = {
    "n.py:f(width=[])": "`width` of `n.py:f(width=[])` has no values\n\nhint: give at least one, or leave it out",
    "n.py:f(3)": "the parameters of `n.py:f(3)` are not of the form `name=value, ...`\n\n"
    "hint: values are numbers, texts in quotes, tuples, True, False or None",
    "n.py:f(a=b)": "the parameters of `n.py:f(a=b)` are not of the form `name=value, ...`\n\n"
    "hint: values are numbers, texts in quotes, tuples, True, False or None",
    "n.py:f(a={[]: 1})": "the parameters of `n.py:f(a={[]: 1})` are not of the form `name=value, ...`\n\n"
    "hint: values are numbers, texts in quotes, tuples, True, False or None",
    "n.py:f(**a)": "the parameters of `n.py:f(**a)` are not of the form `name=value, ...`\n\n"
    "hint: values are numbers, texts in quotes, tuples, True, False or None",
}


@pytest.mark.parametrize("model", WRONG)
def test_parameters_that_are_none(model: str, tmp_path: Path) -> None:
    with pytest.raises(DeuteronError) as error:
        api.sweep({"models": model, "targets": "imxrt700"}, tmp_path / "sweep", workers=1)
    assert str(error.value) == f"the sweep: {WRONG[model]}"


def test_parameters_that_python_does_not_parse() -> None:
    with pytest.raises(OptionError, match="are not of the form"):
        parameters.parse(f"n.py:f(a={'-' * 100_000}1)")


def test_names_without_parameters_stay_as_they_are() -> None:
    for name in ("digits", "dir (1)/net.tflite", "net.py:net", "a(b=1)"):
        assert [*parameters.every(name)] == [name]


@pytest.mark.full
def test_a_search_that_learns_nothing_says_so(
    axes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator on the CPU has no count: no point has a time, and each trial is a guess."""
    monkeypatch.setattr(worker, "_cpu_cycles", lambda _: 0)
    assert not api.sweep(axes, tmp_path / "all", workers=1, search=8).is_blind
    monkeypatch.setattr(worker, "_cpu_cycles", lambda _: None)
    assert not api.sweep(axes, tmp_path / "sram", workers=1, search=8, minimise=["sram"]).is_blind
    file, output = tmp_path / "sweep.toml", tmp_path / "blind"
    file.write_text("".join(f"{name} = {value!r}\n" for name, value in axes.items()))
    command = ["sweep", str(file), "-o", str(output), "--search", "8", "--workers", "1"]
    app.main(command, standalone_mode=False, obj=Printer())
    assert capsys.readouterr().err == (
        "no point that fits has a figure for each of latency, sram: the search chose at random\n`deuteron sweep show "
        f"{output}` shows the best\n"
    )
    app.main([*command, "--json"], standalone_mode=False, obj=Printer())
    assert json.loads(capsys.readouterr().out)["blind"]


def test_what_cannot_be_searched(axes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(**options: Any) -> str:
        with pytest.raises(DeuteronError) as error:
            api.sweep(axes, tmp_path / "sweep", workers=1, **options)
        return str(error.value)

    assert message(search=0) == "`--search` is 0, it must be above 0"
    assert message(search=1, minimise=["cost"]) == (
        "`cost` cannot be minimised\n\nhint: allowed are `latency`, `sram`, `flash`, `accuracy`"
    )
    assert message(search=1, minimise=["latency", "accuracy"]) == (
        'no point has an `accuracy`: nothing measures it\n\nhint: add `evaluate = "file.py:function"` to the sweep'
    )
    monkeypatch.setattr(spec, "MOST_POINTS", 100)
    assert message() == (
        "the sweep has 128 points, at most 100 can be evaluated\n\n"
        "hint: remove values, or search the best with `--search`"
    )
    api.sweep(axes, tmp_path / "search", workers=1, search=1)
    monkeypatch.undo()
    hint = "hint: give another directory, or remove this one"
    with pytest.raises(DeuteronError) as error:
        api.sweep(axes, tmp_path / "search", workers=1)
    assert str(error.value) == f"`{tmp_path / 'search'}` has another sweep: `search` differs\n\n{hint}"
    monkeypatch.setattr(extras, "is_installed", lambda name: name != "optuna")
    assert message(search=1) == (
        "`--search` needs the Python package `optuna`, which is not installed\n\n"
        "hint: install Deuteron with its extra: `pip install 'deuteron[search]'`"
    )
