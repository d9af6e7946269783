"""`deuteron sim` and `deuteron plan` on a small build, and on one whose weights are fetched."""

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
from tests.builds.test_manifest import MANIFEST

from deuteron import api
from deuteron.arch import silicon, targets
from deuteron.arch.memory import DepthFirst, FetchPolicy, MemoryOptions
from deuteron.builds import manifest as manifests
from deuteron.runtime import pte
from deuteron.views import simulate as simulation

from .conftest import Result
from .memory_model import MODEL

Run = Callable[..., Result]

WHOLE = ("--depth-first", "never")
BUDGET = 11968
"""The least that will do."""


@dataclass(frozen=True, slots=True)
class Builds:
    """The model in as much memory as it takes, and in as little as will do, where weights are fetched."""

    whole: Path
    small: Path


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    folder = tmp_path_factory.mktemp("builds")
    (folder / "net.py").write_text(MODEL)
    found = Builds(folder / "whole", folder / "small")
    for path, budget in ((found.whole, None), (found.small, BUDGET)):
        options = api.BuildOptions(memory=MemoryOptions(sram_budget=budget, depth_first=DepthFirst.NEVER))
        api.build_model(f"{folder / 'net.py'}:net", output=path, options=options)
    return found


BAND = str(silicon.band(targets.load("imxrt700")))
SIM = """{path} on imxrt700, simulated: NPU at 324 MHz, flash at 400 MB/s; operators on the CPU not counted
{band}

npu 0: 27.6 us, 8,934 cycles; 350,368 MACs, 61.3% MAC utilisation; bound by compute
  dispatch 4.5 us (16.2%), kernel 23.1 us (83.8%)
    start us         us   stall us          MACs      bytes  bound     kernel
         0.9        0.3        0.0             0      1,536  dispatch  copy_s8  TRANSPOSE net.py:13
         2.1        4.0        0.0        55,296      3,128  compute   conv2d_s8  PADV2 net.py:13 CONV_2D RELU
         7.0       17.0        0.0       294,912      7,488  compute   conv2d_s8  PADV2 net.py:14 CONV_2D RELU
        24.9        1.6        0.0             0      4,112  compute   reduce_sum_s8  MEAN net.py:15
        27.4        0.2        0.0           160        234  dispatch  fully_connected_s8  FULLY_CONNECTED net.py:15
"""

LETTERED = "quantized_decomposed_dequantize_per_tensor_default"
PLAN = """{path} on imxrt700
SRAM: 3,840 B inputs, outputs and CPU tensors + 1,888 B linked weights + 6,784 B scratch = 12,512 B \
of 7,864,320 B

npu 0: 6,784 B scratch + 1,888 B linked weights

npu 0 scratch: 6,784 B, at most 6,784 B live at once (1.000 of that bound, proven optimal)
         6,360 |  e  |
         5,936 | be  |
         5,512 | bb  |
         5,088 | bb  |
         4,664 | bb  |
         4,240 | bb  |
         3,816 | bdff|
         3,392 |  dd |
         2,968 |  dd |
         2,544 |  dd |
         2,120 |  dd |
         1,696 |  dd |
         1,272 |  dd |
           848 | cdd |
           424 |acdd |
             0 |aadd |
       command  0   4
  peak at command 2: d 4,096 B, b 2,048 B, e 640 B
  a        768 B at 0, commands 0-1: result of copy_s8 TRANSPOSE net.py:13
  b      2,048 B at 4,096, commands 1-2: result of conv2d_s8 PADV2 net.py:13 CONV_2D RELU
  c        256 B at 768, commands 1-1: workspace of conv2d_s8 PADV2 net.py:13 CONV_2D RELU
  d      4,096 B at 0, commands 2-3: result of conv2d_s8 PADV2 net.py:14 CONV_2D RELU
  e        640 B at 6,144, commands 2-2: workspace of conv2d_s8 PADV2 net.py:14 CONV_2D RELU
  f         16 B at 4,096, commands 3-4: result of reduce_sum_s8 MEAN net.py:15
"""


def test_the_text_of_a_run(deuteron: Run, builds: Builds) -> None:
    assert deuteron("sim", builds.whole) == Result(0, SIM.format(path=builds.whole, band=BAND), "")


def test_the_text_of_a_plan(deuteron: Run, builds: Builds) -> None:
    assert deuteron("plan", builds.whole) == Result(0, PLAN.format(path=builds.whole), "")


def test_the_text_of_fetches_says_what_the_numbers_do(deuteron: Run, builds: Builds) -> None:
    (part,) = json.loads(deuteron("plan", builds.small, "--json").out)["partitions"]
    fetched, clock = part["prefetch"], 324.0
    told = deuteron("plan", builds.small).out.splitlines()
    assert told[-1] == f"simulated times: {BAND}"
    assert told[-3:-1] == [
        "npu 0 prefetch: 2 fetches of 544 B per run; 1 of 1,344 B in the first run only (resident)",
        f"  simulated {fetched['cycles'] / clock:,.1f} us{', proven optimal' if fetched['proven'] else ''}; "
        f"lower bound of these fetches {fetched['bound'] / clock:,.1f} us "
        f"({fetched['cycles'] / fetched['bound']:.3f} of it), of all plans with these pieces "
        f"{fetched['bound_of_all'] / clock:,.1f} us; all fetched one by one in every run "
        f"{fetched['serial'] / clock:,.1f} us ({fetched['serial'] / fetched['cycles']:.2f} times as long)",
    ]
    assert told[1:4] == [
        "SRAM: 3,840 B inputs, outputs and CPU tensors + 8,128 B scratch and prefetch area = 11,968 B of 11,968 B",
        "",
        "npu 0: 6,784 B scratch + 1,344 B prefetch area",
    ]
    assert "npu 0 prefetch area: 1,344 B, 1,344 B of it for resident weights" in told
    fetched_to_scratch = "  g        320 B at 1,024, commands 0-4: weights of conv2d_s8 PADV2 net.py:13 CONV_2D RELU"
    assert fetched_to_scratch in told
    assert (fetched["fetches"], fetched["nbytes"]) == (2, 544)
    assert (fetched["resident_fetches"], fetched["resident_bytes"]) == (1, 1344)
    (run,) = simulated(deuteron, builds.small)["partitions"]
    assert run["cycles"] == fetched["cycles"]
    assert 0 < fetched["bound"] <= fetched["cycles"] <= fetched["serial"]
    assert 0 < fetched["bound_of_all"] <= fetched["cycles"]
    exact, model = builds.whole.parent / "exact", f"{builds.whole.parent / 'net.py'}:net"
    built = deuteron("build", model, "-o", exact, "--sram-budget", str(BUDGET), "--effort", "exact", *WHOLE)
    assert "fetched (time proven optimal), prefetch area 1,344 B, scratch 6,784 B (proven optimal)" in built.out
    (entry,) = manifests.read(exact).partitions
    assert entry.prefetch_proven_optimal
    assert "us, proven optimal; lower bound of these fetches" in deuteron("plan", exact).out


def simulated(deuteron: Run, *args: str | Path) -> dict[str, Any]:
    result = deuteron("sim", *args, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_other_rates(deuteron: Run, builds: Builds) -> None:
    planned, slow, half = (
        simulated(deuteron, builds.small, *options)
        for options in ((), ("--flash-bandwidth", "4MB/s"), ("--clock", "162M"))
    )
    late = simulated(deuteron, builds.small, "--flash-latency", "2200")
    transfers = [report["partitions"][0]["totals"]["transfer"] for report in (planned, late)]
    assert transfers[1] - transfers[0] == 2 * 648, "two fetches, each 2,000 ns later than the target's 200"
    stalls = [report["partitions"][0]["totals"]["stall"] for report in (planned, slow)]
    assert stalls[1] > 20 * stalls[0]
    assert stalls[1] > 20 * 324
    assert (planned["clock"], half["clock"], slow["flash_bandwidth"]) == (324_000_000, 162_000_000, 4_000_000)
    assert half["partitions"][0]["totals"]["kernel"] == planned["partitions"][0]["totals"]["kernel"]
    first = simulated(deuteron, builds.small, "--first-run")
    assert first["partitions"][0]["cycles"] >= planned["partitions"][0]["cycles"]


def test_another_budget_is_what_a_build_for_it_would_be(deuteron: Run, builds: Builds) -> None:
    planned, built = simulated(deuteron, builds.whole, "--sram-budget", str(BUDGET)), simulated(deuteron, builds.small)
    assert (planned.pop("sram_budget"), built.pop("sram_budget")) == (BUDGET, None)
    assert (planned.pop("path"), built.pop("path")) == (str(builds.whole), str(builds.small))
    assert planned == built
    assert built["partitions"][0]["totals"]["transfer"] > 0
    told = deuteron("sim", builds.whole, "--sram-budget", str(BUDGET)).out.splitlines()[1]
    assert told == "planned again for 11,968 bytes of SRAM and this flash; the build is unchanged"


def test_a_budget_that_is_too_small(deuteron: Run, builds: Builds) -> None:
    result = deuteron("sim", builds.whole, "--sram-budget", "4Ki")
    line = f"{builds.whole.parent / 'net.py'}:14: `x = self.b(x).relu()`: "
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[:2] == [
        f"error: {line}kernel call 2, `conv2d_s8` of op 4: intermediate results need 6,784 bytes of SRAM besides 3,840 "
        "for inputs, outputs and CPU tensors, 4,096 are available; the peak is here; the largest values are:",
        f"  {line}op 4: 4,096 bytes, `{LETTERED}_5` of `conv2d_s8`",
    ]


def test_another_budget_needs_the_tflite_files_and_not_the_reference(
    deuteron: Run, builds: Builds, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(builds.whole, copy)
    (copy / "reference.pt2").unlink()
    assert deuteron("sim", copy, "--sram-budget", str(BUDGET)).code == 0
    (copy / "npu_0.tflite").unlink()
    assert deuteron("sim", copy, "--sram-budget", str(BUDGET)) == Result(
        1, "", f"error: {copy}: `npu_0.tflite` is missing though `build.json` lists it\n"
    )


def test_a_build_beside_itself(deuteron: Run, builds: Builds) -> None:
    head = SIM.format(path=builds.whole, band=BAND).splitlines()[:2]
    assert deuteron("sim", "--compare", builds.whole, builds.whole).out.splitlines() == [
        *(f"A: {line}" for line in head),
        *(f"B: {line}" for line in head),
        "total: 27.6 us to 27.6 us (+0.0 us, +0.0%)",
        "  dispatch: 4.5 us to 4.5 us (+0.0 us, +0.0%)",
        "  kernel: 23.1 us to 23.1 us (+0.0 us, +0.0%)",
        "",
        "      A us       B us     change   A stall   B stall    A bytes    B bytes",
        "5 kernels are equal in both",
    ]


def test_two_builds_beside_each_other(deuteron: Run, builds: Builds) -> None:
    """The two builds differ in the call at which the second waits for weights."""
    slow = ("--flash-bandwidth", "4MB/s")
    result = json.loads(deuteron("sim", "--compare", builds.whole, builds.small, *slow, "--json").out)
    (one,), (other,) = (simulated(deuteron, path, *slow)["partitions"] for path in (builds.whole, builds.small))
    for side, part in (("before", one), ("after", other)):
        assert result[side]["microseconds"] == pytest.approx(part["cycles"] / 324)
    rows = result["differences"]
    assert len(rows) + result["same"] == 5
    assert rows
    assert all(abs(a["change"]) >= abs(b["change"]) for a, b in pairwise(rows))
    assert sum(row["after"]["stall"] for row in rows) == pytest.approx(other["totals"]["stall"] / 324)
    text = deuteron("sim", "--compare", builds.whole, builds.small, *slow).out
    first = rows[0]
    assert f"{first['change']:>+10,.1f}" in text
    assert f"npu 0 {first['kernel']}  {first['origin']}" in text


def test_kernels_that_one_build_alone_has(builds: Builds) -> None:
    whole = simulation.simulate_build(builds.whole)
    nothing = replace(whole, partitions=())
    removed, added = simulation.changes(whole, nothing), simulation.changes(nothing, whole)
    assert [row.change for row in removed.changes] == [-row.change for row in added.changes]
    assert len(added.changes) == 5
    assert [line for found in (removed, added) for line in found.lines() if "net.py:14" in line] == [
        "      17.9          -      -17.9       0.0         -      7,488          -  npu 0 conv2d_s8  "
        "PADV2 net.py:14 CONV_2D RELU",
        "         -       17.9      +17.9         -       0.0          -      7,488  npu 0 conv2d_s8  "
        "PADV2 net.py:14 CONV_2D RELU",
    ]


def test_fetches_of_weights_that_stay_are_told_apart(
    deuteron: Run, builds: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all of the SRAM every weight stays, and no run but the first fetches anything."""
    path = tmp_path / "always"
    options = api.BuildOptions(memory=MemoryOptions(FetchPolicy.ALWAYS))
    api.build_model(f"{builds.whole.parent / 'net.py'}:net", output=path, options=options)
    told = deuteron("plan", path).out.splitlines()
    assert "npu 0 prefetch area: 1,888 B, 1,888 B of it for resident weights" in told
    (line,) = (line for line in told if line.startswith("npu 0 prefetch: "))
    (part,) = json.loads(deuteron("plan", path, "--json").out)["partitions"]
    made = part["prefetch"]["resident_fetches"]
    assert made > 0
    assert line == f"npu 0 prefetch: 0 fetches of 0 B per run; {made} of 1,888 B in the first run only (resident)"

    kept, first = (simulated(deuteron, path, *options) for options in ((), ("--first-run",)))
    assert (kept["resident"], first["resident"]) == ("kept", "first_run")
    assert [found["partitions"][0]["totals"]["transfer"] > 0 for found in (kept, first)] == [False, True]
    assert [deuteron("sim", path, *options).out.splitlines()[1] for options in ((), ("--first-run",))] == [
        "resident weights are in SRAM from the previous run, as in firmware of `deuteron firmware`",
        "resident weights are fetched, as in the first run, and in every run of ExecuTorch's runtime",
    ]
    with monkeypatch.context() as patch:  # as if the same partition came twice
        manifest, program = manifests.read(path), pte.read((path / manifests.PROGRAM).read_bytes())
        method = replace(program.methods[0], delegates=program.methods[0].delegates * 2)
        patch.setattr(manifests, "read", lambda _: replace(manifest, partitions=manifest.partitions * 2))
        patch.setattr(pte, "read", lambda _: replace(program, methods=(method,)))
        both = simulated(deuteron, path)
        text = deuteron("sim", path).out.splitlines()
    assert both["resident"] == "shared"
    assert both["cycles"] == 2 * first["cycles"]
    assert text[1] == "resident weights are fetched in every run, because several partitions share their memory"


def test_the_picture_of_a_plan(deuteron: Run, builds: Builds, tmp_path: Path) -> None:
    """A rectangle for each value, as high as its share of the memory and as wide as its commands; names are in it."""
    path = tmp_path / "plan.svg"
    report = json.loads(deuteron("plan", builds.small, "--json", "--svg", path, "-q").out)
    root = ET.parse(path).getroot()
    (part,) = report["partitions"]
    rectangles = [(r.attrib, r[0].text or "") for r in root.iter("{http://www.w3.org/2000/svg}rect") if len(r)]
    blocks = [(memory, block) for memory in part["memories"] for block in memory["blocks"]]
    assert len(rectangles) == len(blocks) > 0
    bottom = float(root.attrib["height"])
    for (shape, title), (memory, block) in zip(rectangles, blocks, strict=True):
        assert title.startswith(f"{block['name']}: {block['nbytes']:,} B at {block['offset']:,}, commands ")
        assert part["origins"][block["name"]] in title
        assert float(shape["height"]) == pytest.approx(240 * block["nbytes"] / memory["nbytes"], abs=0.1)
        width = 960 * (block["last"] + 1 - block["first"]) / part["commands"]
        assert float(shape["width"]) == pytest.approx(width, abs=0.1)
        assert 0 <= float(shape["y"]) <= bottom - float(shape["height"])
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    lines = deuteron("plan", builds.small).out.splitlines()
    titles = [f"npu 0 {memory['name']}: " for memory in part["memories"]]
    assert [text for text in texts if text.startswith(tuple(titles))] == [
        line for line in lines if line.startswith(tuple(titles))
    ]
    assert sum("weights of conv2d_s8 PADV2 net.py:14 CONV_2D RELU" in text for text in texts) == 1
    assert deuteron("plan", builds.small, "--svg", path).code == 2
    assert deuteron("plan", builds.small, "--svg", path, "--force").code == 0


DAMAGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "one partition less": (
        lambda record: record["partitions"].pop(),
        "error: {path}: 0 partitions are described, `model.pte` has 1",
    ),
    "a constant outside": (
        lambda record: record["partitions"][0]["dataflow"]["constants"][0].update(name="w", offset=1000000, nbytes=16),
        "error: {path}, partition 0: `w` has bytes 1000000 to 1000016 of weights of 1888 bytes",
    ),
    "an input more": (
        lambda record: record["partitions"][0]["dataflow"]["inputs"].append("more"),
        "error: {path}, partition 0: 2 inputs are described, the microcode has 1",
    ),
    "a use without a place": (
        lambda record: record["partitions"][0]["dataflow"]["calls"][0].__setitem__(0, "x"),
        "error: {path}, partition 0: an operand is not of the form `value+offset`",
    ),
    "a call less": (
        lambda record: record["partitions"][0]["kernels"].pop(),
        "error: {path}, partition 0: 4 kernel calls are described, the microcode has 5",
    ),
    "calls in another order": (
        lambda record: record["partitions"][0]["kernels"].reverse(),
        "error: {path}, partition 0: call 4, `fully_connected_s8`, is described where the microcode has call 0, "
        "`copy_s8`",
    ),
    "another kernel": (
        lambda record: record["partitions"][0]["kernels"][1].update(kernel="other_s8"),
        "error: {path}, partition 0: call 1, `other_s8`, is described where the microcode has call 1, `conv2d_s8`",
    ),
    "an operator that is not there": (
        lambda record: record["partitions"][0]["kernels"][2]["ops"].append(99),
        "error: {path}, partition 0: call 2 names an operator that is not described",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_told(deuteron: Run, builds: Builds, tmp_path: Path, damage: str) -> None:
    change, told = DAMAGES[damage]
    copy = _changed(builds.small, tmp_path / "copy", change)
    hint = "\n\nhint: build the model again; the file has been changed or is damaged\n"
    for name in ("sim", "plan"):
        assert deuteron(name, copy) == Result(1, "", told.format(path=copy / "build.json") + hint)


def test_values_that_are_not_the_microcodes(deuteron: Run, builds: Builds, tmp_path: Path) -> None:
    """A call that is described with an operand less is another one: `sim` lists it, and `plan` does not draw it."""
    copy = _changed(
        builds.small, tmp_path / "copy", lambda record: record["partitions"][0]["dataflow"]["calls"][0].pop()
    )
    found = "command 2: `copy_s8` is not call 0 of the program: that has 1 operands, this one 2 (TRANSPOSE net.py:13)"
    result = deuteron("sim", copy)
    assert result.code == 1
    assert f"  wrong: {found}" in result.out.splitlines()
    assert deuteron("plan", copy) == Result(
        1,
        "",
        f"error: {copy}: the microcode of npu 0 is wrong: {found}\n\nhint: `deuteron sim` lists all errors; build the "
        "model again\n",
    )


def _changed(build: Path, copy: Path, change: Callable[[Any], object]) -> Path:
    """A copy of a build whose `build.json` has been changed."""
    shutil.copytree(build, copy)
    record = json.loads((copy / "build.json").read_text())
    change(record)
    (copy / "build.json").write_text(json.dumps(record))
    return copy


def test_numbers_that_no_target_has(deuteron: Run, builds: Builds) -> None:
    for args, told in {
        ("--flash-bandwidth", "0"): "`--flash-bandwidth` is 0, it must be above 0\n",
        ("--clock", "0"): "`--clock` is 0, it must be above 0\n",
        ("--flash-latency", "-1"): "`--flash-latency` is -1, it must not be below 0\n",
        ("--sram-budget", "30M"): "`--sram-budget` is 30,000,000 bytes, the SRAM of `imxrt700` only 7,864,320\n\n"
        "hint: give less, or leave it out to use all of it\n",
    }.items():
        assert deuteron("sim", builds.small, *args) == Result(2, "", f"error: {told}")


ONE_OR_TWO = (
    "error: give one build, or two after `--compare`\n\nhint: `deuteron sim DIR` or `deuteron sim --compare A B`\n"
)


@pytest.mark.parametrize(
    ("args", "err"),
    [
        ((), ONE_OR_TWO),
        (("a", "--compare", "a", "b"), ONE_OR_TWO),
        (
            ("--compare", "a", "b", "--trace", "t"),
            "error: `--trace` writes one build's run\n\nhint: leave out `--compare`, and give the build\n",
        ),
        (
            ("a", "--clock", "fast"),
            "error: `fast` is no frequency for `--clock`\n\nhint: give Hz, or a number with k, M or G: `324M`\n",
        ),
        (
            ("a", "--flash-bandwidth", "0.001B/s"),
            "error: `0.001B/s` for `--flash-bandwidth` is no whole number of bytes per second\n\n"
            "hint: give bytes per second, or a number with k, Ki, M, Mi, G or Gi: `100MB/s`\n",
        ),
        (
            ("a", "--sram-budget", "999999999999Gi"),
            "error: `999999999999Gi` for `--sram-budget` is too large: at most 1,099,511,627,776 bytes are possible\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`\n",
        ),
        (
            ("a", "--sram-budget", "1.5"),
            "error: `1.5` for `--sram-budget` is no whole number of bytes\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`\n",
        ),
        (
            ("a", "--flash-bandwidth", "100Mb/s"),
            "error: `100Mb/s` is no rate for `--flash-bandwidth`\n\n"
            "hint: give bytes per second, or a number with k, Ki, M, Mi, G or Gi: `100MB/s`\n",
        ),
        (
            ("a", "--sram-budget", "100MB/s"),
            "error: `100MB/s` is no size for `--sram-budget`\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`\n",
        ),
    ],
)  # fmt: skip
def test_refused(deuteron: Run, args: tuple[str, ...], err: str) -> None:
    assert deuteron("sim", *args) == Result(2, "", err)


def test_a_build_without_an_npu(deuteron: Run, tmp_path: Path) -> None:
    manifest = replace(MANIFEST, target="cortex-m33", files={}, partitions=())
    (tmp_path / manifests.NAME).write_text(manifest.to_json())
    assert deuteron("sim", tmp_path).err == (
        f"error: nothing of `{tmp_path}` runs on an NPU\n\nhint: `deuteron plan` shows its memory in firmware, "
        "`deuteron profile` its time\n"
    )


def test_the_trace_is_the_run(deuteron: Run, builds: Builds, tmp_path: Path) -> None:
    """Read back with Perfetto's own classes: NPU and flash do one thing at a time, for as long as the events say."""
    path = tmp_path / "run.pftrace"
    report = simulated(deuteron, builds.small, "--trace", path, "-q")
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    tracks = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    begun: dict[int, list[int]] = {}
    lengths: dict[str, list[int]] = {}
    for packet in trace.packet:
        event = packet.track_event
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            begun.setdefault(event.track_uuid, []).append(packet.timestamp)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            lengths.setdefault(tracks[event.track_uuid], []).append(packet.timestamp - begun[event.track_uuid].pop())
            assert tracks[event.track_uuid] == "CPU" or not begun[event.track_uuid]
    assert not any(begun.values())
    (part,) = report["partitions"]
    for track, title in (("npu", "NPU"), ("flash", "flash")):
        cycles = [event["stop"] - event["start"] for event in part["events"] if event["track"] == track]
        assert lengths[title] == pytest.approx([1000 * n / 324 for n in cycles], abs=1)


CHAINS = """
  depth first: 5,120 B of scratch instead of 6,784 B, 34,560 MACs recomputed, at most 109.3% slower than any plan
    chain 0: 3 calls in 6 stripes of up to 3 rows, halo 4, 0 copies of kept rows, 34,560 MACs recomputed; \
TRANSPOSE net.py:13 to RELU net.py:14
"""


def test_chains_that_run_depth_first_are_told(deuteron: Run, builds: Builds, tmp_path: Path) -> None:
    """In less memory than whole layers need: which calls, how many rows, what is done twice, and what is saved."""
    path = tmp_path / "cut"
    options = api.BuildOptions(memory=MemoryOptions(sram_budget=10_500))
    api.build_model(f"{builds.whole.parent / 'net.py'}:net", output=path, options=options)
    for command in ("sim", "plan"):
        told = deuteron(command, path).out
        assert CHAINS in told
    assert "PADV2 net.py:13 CONV_2D RELU, rows 0-3 in stripe 0 of chain 0" in deuteron("sim", path).out
    assert "       depth first, in 6 stripes of rows, with all of chain 0" in deuteron("explain", path).out.splitlines()
    manifest = json.loads((path / "build.json").read_text())
    assert manifest["partitions"][0]["whole_scratch_bytes"] == 6_784
