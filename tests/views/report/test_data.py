"""The data of the page, and the errors of the command that writes it."""

import base64
import hashlib
import json
import re
from pathlib import Path

import pytest
from tests.views.report.example_pages import HOSTILE, hostile, profile

from deuteron.cli import main
from deuteron.errors import FormatError, InputError
from deuteron.views.events import record, tables
from deuteron.views.report import page
from deuteron.views.report.data import page_data


def test_rows_and_events_name_their_parts():
    data = json.loads(json.dumps(page_data(profile())))
    names = [part["name"] for part in data["parts"]]
    assert names == [row.name for row in tables.kernels(profile())]
    for rows in data["tables"].values():
        for row in rows:
            assert row["parts"]
    conv, pool = names.index("npu 0 #0 conv2d_s8"), names.index("npu 0 #1 max_pool_s8")
    block, *_ = (row for row in data["tables"]["module"] if row["name"] == "block")
    assert block["parts"] == [conv, pool]
    # The wait and the dispatch right before a kernel are for it; the transfer is nobody's time.
    owners = {(event["kind"], event["name"]): event["parts"] for event in data["events"]}
    assert owners["wait", "channel 0"] == owners["dispatch", "max_pool_s8"] == [pool]
    assert owners["kernel", "conv2d_s8"] == [conv]
    assert owners["transfer", "weights 0"] == []
    assert [block["parts"] for block in data["memories"][0]["blocks"]] == [[conv], [pool]]


def test_the_way_from_a_kernel_to_its_line():
    conv = next(part for part in page_data(profile())["parts"] if part["kind"] == "kernel")
    assert conv["ops"] == ["CONV_2D #0 of npu 0"]
    assert conv["nodes"] == ["aten_convolution_default"]
    assert conv["sources"] == [{"file": "model.py", "line": 7, "code": "x = self.conv(x)", "module": "block.conv"}]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_leaves_its_place(name: str):
    text = page.html(hostile(name))
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert "<" not in data
    assert json.loads(data)["model"] == name
    plain = page.html(profile())
    for tag in ("<script", "</script", "<style", "<img", "<svg", "<!--"):
        assert text.count(tag) == plain.count(tag)


def test_only_the_scripts_of_the_page_may_run():
    text = page.html(profile())
    (policy,) = re.findall(r'Content-Security-Policy"\s+content="([^"]*)"', text)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in found]
        assert rules[rule].split() == [f"'sha256-{one}'" for one in hashes]
        assert len(hashes) == 2


def written(tmp_path: Path) -> Path:
    path = tmp_path / record.NAME
    path.write_text(record.FILE.to_json(profile()), encoding="utf-8")
    return path


def command(*args: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["report", *map(str, args)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_command_writes_beside_the_profile_and_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = written(tmp_path)
    assert command(file) == 0
    assert capsys.readouterr().err == f"wrote `{tmp_path / 'report.html'}`\n"
    assert (tmp_path / "report.html").read_text("utf-8") == page.html(profile())
    assert command(tmp_path) == 2
    assert capsys.readouterr().err == (
        f"error: `{tmp_path / 'report.html'}` exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    assert command(tmp_path, "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "report": str(tmp_path / "report.html")}
    assert command(tmp_path, "-o", tmp_path / "no" / "where.html") == 1
    assert capsys.readouterr().err == (
        f"error: `{tmp_path / 'no' / 'where.html'}` cannot be written: there is no directory `{tmp_path / 'no'}`\n\n"
        "hint: create it first\n"
    )


def test_what_is_no_profile_is_said(tmp_path: Path):
    with pytest.raises(InputError) as error:
        record.read(tmp_path)
    assert str(error.value) == (f"`{tmp_path}` has no `profile.json`\n\nhint: give a profile of `deuteron profile DIR`")
    file = written(tmp_path)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as a profile"):
        record.read(file)
    file.write_text('{"schema": 99}')
    with pytest.raises(FormatError) as damaged:
        record.read(file)
    assert str(damaged.value) == (
        f"{file}: `profile.json` has schema 99, this version of Deuteron reads schema 7\n\n"
        "hint: profile the build again"
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"hz": 1000000', '"hz": 0', "a clock of 0 Hz"),
        (
            '"name": "conv2d_s8",\n        "run": 0,\n        "partition": 0,\n        "index": 0',
            '"name": "conv2d_s8",\n        "run": 0,\n        "partition": 0,\n        "index": 9',
            "an event of kernel call 9 of npu 0, which has no such call",
        ),
        ('"partition": 0', '"partition": 3', "an event of npu 3, of 1"),
        ('"stop": 610', '"stop": 60', "an event that stops at 60, before it starts at 110"),
        ('"ops": [\n            1\n          ]', '"ops": [\n            7\n          ]',
         "kernel call 1 of npu 0, which computes operators that are not there"),
        ('"runs": 1', '"runs": 1000000000', "1000000000 runs, of which 1 are recorded"),
        ('"runs": 1', '"runs": 0', "an event of run 0, of 0"),
        ('"run": 0', '"run": -1', "an event of run -1, of 1"),
        ('"partition": -1', '"partition": -2', "an event of npu -2, of 1"),
        ('"start": 0', '"start": -4', "an event that starts at -4 and moves 0 bytes"),
        ('"npu_hz": 1000000', '"npu_hz": -1', "-1 as NPU clock"),
        ('"macs": 4000', '"macs": -4000', "-4000 as MACs of kernel call 0"),
        ('"offset": 600', '"offset": -8', "-8 as a size in memory `scratch`"),
        ('"nbytes": 2382', '"nbytes": -1', "-1 as bytes of section `conv2d_s8`"),
        (
            '"index": 1,\n          "name": "max_pool_s8"',
            '"index": 0,\n          "name": "max_pool_s8"',
            "kernel call 0 of npu 0 in the place of call 1",
        ),
        ('"last": 1', '"last": 5', "a block from kernel call 0 to 5 of npu 0, which has 2"),
    ],
)  # fmt: skip
def test_a_profile_that_contradicts_itself_is_refused(tmp_path: Path, old: str, new: str, said: str):
    file = written(tmp_path)
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1) if "block" in said else text.replace(old, new), encoding="utf-8")
    with pytest.raises(FormatError) as error:
        record.read(file)
    assert str(error.value) == f"{file}: `profile.json` has {said}\n\nhint: profile the build again"


def test_text_that_would_break_the_reader_is_refused(tmp_path: Path):
    file = written(tmp_path)
    text = file.read_text("utf-8")
    file.write_text(text.replace('"hz": 1000000', f'"hz": 1{"0" * 400}'), encoding="utf-8")
    with pytest.raises(FormatError) as large:
        record.read(file)
    assert str(large.value) == (
        f"{file}: `profile.json` cannot have 1{'0' * 59} at `stream.clock.hz`\n\nhint: profile the build again"
    )
    file.write_text("[" * 200_000)
    with pytest.raises(FormatError, match=r"`profile\.json` is not JSON: maximum recursion depth exceeded"):
        record.read(file)
