"""`deuteron explain`: its text and its JSON, for a build that is made by hand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from tests.builds.test_manifest import MANIFEST, SOURCE

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.builds.manifest import CpuOp, Manifest, ModelInfo, Node
from deuteron.builds.quality import PROGRAM, LayerQuality, Quality
from deuteron.errors import OptionError
from deuteron.npu.schedule import Schedule, Step
from deuteron.views import offload_costs as placement
from deuteron.views.explain import Explanation
from deuteron.views.offload_costs import Costs, Island

WHY = "ExecuTorch's NXP backend has no converter for `aten::gelu`"
ADDED = "quantizes for integer operators"
COPIES = "copies an image into the order of memory that its reader takes"
QUANTIZE = CpuOp("cortex_m::quantize_per_tensor", "q", (), "", ADDED, Work.QUANTIZE, 100)
COPY = CpuOp("dim_order_ops::_clone_dim_order", "copy", (), "", COPIES, Work.TRANSPOSE, 50)
BUILD = replace(
    MANIFEST,
    target="imxrt700cm",
    partitions=MANIFEST.partitions * 2,
    nodes=(
        Node("conv", "aten::convolution", "conv2d", (SOURCE,), 0, "", Work.CONVOLUTION, 100, 2700, 400),
        Node("gelu", "aten::gelu", "gelu", (SOURCE,), None, WHY, Work.TABLE, 100, 0, 200),
        Node("relu", "aten::relu", "relu", (), None, WHY, Work.NOTHING, 0, 0, 200),
        Node("cat", "aten::cat", "cat", (SOURCE,), 1, "", Work.MOVE, 200, 0, 300),
    ),
    cpu_ops=(
        QUANTIZE,
        CpuOp("cortex_m::quantized_activation", "table", (SOURCE,), "gelu", WHY, Work.NOTHING, 100),
        COPY,
        replace(COPY, node="another"),
    ),
)
ISLANDS = (Island(1, 1000, 0, 500, 50, 9000), Island(1, 700, 200, 1500, 70, 1200))
COSTS = Costs(ISLANDS, {"gelu": 890, "relu": 0}, (4400, None, 500, 1500))
LINE = "net.py:12: return self.conv(x)"


@pytest.mark.parametrize(
    ("target", "cpu"),
    [("cortex-m33", "int16 Cortex-M operators"), ("ethos-u55-128", "ExecuTorch's portable operators")],
)
def test_the_title_says_of_how_many_bits_operators_are(target: str, cpu: str):
    wide = replace(BUILD, target=target, options=replace(BUILD.options, activations=api.Activations.INT16))
    assert next(Explanation("out", wide, COSTS).lines()) == f"out on {target}: digits; on the CPU {cpu}"


def test_text():
    assert list(Explanation("out", BUILD, COSTS).lines()) == [
        "out on imxrt700cm: digits; on the CPU int8 Cortex-M operators",
        "",
        "runs on      operators          MACs       bytes                  cycles",
        "npu                  2         2,700         700        1,700  simulated",
        "cpu                  2             0         400          890  estimated",
        "cpu, added           4             0           0        6,600  estimated",
        "",
        f"npu 0  aten::convolution  {LINE}",
        f"cpu    aten::gelu  {LINE}",
        f"       {WHY}",
        "       computed by cortex_m::quantized_activation",
        "cpu    aten::relu",
        f"       {WHY}",
        "       computed with the operator before it",
        f"npu 1  aten::cat  {LINE}",
        "",
        "added on the CPU:",
        f"    1  cortex_m::quantize_per_tensor: {ADDED}",
        f"    2  dim_order_ops::_clone_dim_order: {COPIES}",
        "",
        "partitions on the NPU, in cycles (simulated), against the CPU (estimated):",
        "npu 0: 1,000, copies of inputs and outputs 500 (50 B); on the CPU 9,000",
        "npu 1: 700, copies of inputs and outputs 1,700 (70 B); on the CPU 1,200",
        "       costs 1,200 cycles more than it saves by itself: `--partition cost` moves it to the CPU if that "
        "makes the whole build faster",
    ]


def test_a_line_that_stands_for_several_modules_has_their_names():
    layers = tuple(
        replace(BUILD.nodes[0], source=(replace(SOURCE, code="x = self.body(x)", module=f"body.{i}"),)) for i in (0, 9)
    )
    quality = Quality(4, 4, layers=(LayerQuality("conv", "aten::conv2d", layers[1].source, 30, 40),))
    lines = list(Explanation("out", replace(BUILD, nodes=layers, quality=quality), COSTS).lines())
    assert "npu 0  aten::convolution  net.py:12 body.0: x = self.body(x)" in lines
    assert "npu 0  aten::convolution  net.py:12 body.9: x = self.body(x)" in lines
    assert lines[-1].endswith("30.0  net.py:12 body.9")


def test_a_part_that_does_not_pay_and_stays():
    cost = replace(BUILD, options=replace(BUILD.options, partition=api.Partitioning.COST))
    assert list(Explanation("out", cost, COSTS).lines())[-1] == (
        "       costs 1,200 cycles more than it saves by itself: `--partition cost` keeps it there because the whole "
        "build would be slower without it"
    )


@pytest.mark.parametrize(
    ("quality", "where"),
    [
        (Quality(32, 32, PROGRAM), "on 32 samples, of program"),
        (Quality(32, 2, PROGRAM), "on 2 of 32 samples, of program"),
        (Quality(32, 2), "on 32 samples, of quantized PyTorch"),
    ],
)
def test_on_how_many_samples_outputs_are_measured(quality: Quality, where: str):
    lines = Explanation("out", replace(BUILD, quality=quality), COSTS).lines()
    assert f"signal to quantization noise against the float model, {where}:" in lines


def test_json():
    found = json.loads(json.dumps(Explanation("out", BUILD, COSTS).to_json()))
    assert (found["schema"], found["target"]) == (1, "imxrt700cm")
    assert [share["cycles"] for share in found["summary"]] == [1700, 890, 6600]
    assert [node["runs_on"] for node in found["nodes"]] == ["npu 0", "cpu", "cpu", "npu 1"]
    gelu = found["nodes"][1]
    assert (gelu["why"], gelu["computed_by"], gelu["estimated_cycles"]) == (
        WHY,
        ["cortex_m::quantized_activation"],
        890,
    )
    assert gelu["source"][0]["line"] == 12
    assert [op["node"] for op in found["added"]] == ["q", "copy", "another"]
    assert [island["gain"] for island in found["islands"]] == [7500, -1200]


def test_what_nobody_has_counted_is_said_to_be_unknown():
    portable = replace(BUILD, target="imxrt700")
    unknown = Costs((replace(ISLANDS[0], turns=None, copies=None, cpu=None),), {"gelu": None}, (None,) * 4)
    lines = list(Explanation("out", portable, unknown).lines())
    assert lines[0] == "out on imxrt700: digits; on the CPU ExecuTorch's portable operators"
    assert lines[4:6] == [
        "cpu                  2             0         400               not known",
        "cpu, added           4             0           0               not known",
    ]
    assert lines[-1] == "npu 0: 1,000, copies of inputs and outputs not known (50 B); on the CPU not known"
    nodes = tuple(replace(node, nbytes=None) if node.name == "gelu" else node for node in BUILD.nodes)
    uncounted = Explanation("out", replace(BUILD, nodes=nodes), COSTS)
    assert list(uncounted.lines())[4] == "cpu                  2     not known   not known          890  estimated"
    found = json.loads(json.dumps(uncounted.to_json()))
    (share, node) = found["summary"][1], found["nodes"][1]
    assert (share["macs"], share["nbytes"], node["macs"], node["bytes"]) == (None,) * 4


def test_a_target_without_an_npu_has_no_part_for_it():
    nodes = tuple(replace(node, partition=None, why="the target `cortex-m33` has no NPU") for node in BUILD.nodes)
    lines = list(
        Explanation("out", replace(BUILD, target="cortex-m33", nodes=nodes), replace(COSTS, islands=())).lines()
    )
    assert [line.split()[0] for line in lines[3:5]] == ["cpu", "cpu,"]
    assert not any("npu" in line.lower() for line in lines), "also not as the reason of each operator"


def test_cycles_of_two_clocks_are_told_apart():
    """Vela's cycles are of the NPU's clock; the CPU of an Ethos-U system has no known clock."""
    steps = (Step((0,), 70, 60, 50, 0, 1, 1), Step((1,), 30, 20, 10, 0, 1, 1))
    part = replace(MANIFEST.partitions[0], schedule=Schedule("Vela", "a system", 500_000_000, steps))
    build = replace(BUILD, target="ethos-u55-128cm", partitions=(part,))
    beside, alone = Explanation("out", build, replace(COSTS, islands=())), Explanation("out", BUILD, COSTS)
    assert list(beside.lines())[3:7] == [
        "npu                  2         2,700         700  100  estimated by Vela",
        "cpu                  2             0         400          890  estimated",
        "cpu, added           3             0           0        6,400  estimated",
        "NPU cycles and CPU cycles are of different clocks and do not add up",
    ]
    assert [share.clock for share in beside.shares()] == ["npu", "cpu", "cpu"]
    assert [share.clock for share in alone.shares()] == ["npu", "npu", "npu"]
    assert [share["clock"] for share in beside.to_json()["summary"]] == ["npu", "cpu", "cpu"]  # type: ignore[attr-defined]


def test_only_islands_that_lose_are_kept_with_the_numbers():
    assert placement.kept_by_cost(BUILD, COSTS) == {
        "cat": (
            "kept on the CPU by `--partition cost`: its share of the NPU's work takes 700 cycles there (simulated) "
            "and 1,700 for copies of inputs and outputs, 1,200 on the CPU (estimated)"
        )
    }


@dataclass(frozen=True, slots=True)
class Made:
    """A build that was not made: only its name is looked at."""

    manifest: Manifest
    pte: bytes = b""


def test_builds_go_on_until_the_whole_gets_no_faster(monkeypatch: pytest.MonkeyPatch):
    totals = [5000, 4000, 4100, 1]
    made = [Made(replace(BUILD, model=ModelInfo(str(total)))) for total in totals]
    asked: list[Mapping[str, str]] = []

    def build(keep: Mapping[str, str]) -> Made:
        asked.append(dict(keep))
        return made[len(asked) - 1]

    def costs(manifest: Manifest, _: bytes) -> Costs:
        return Costs((Island(1, 700, 0, 0, 0, 600),), {"gelu": int(manifest.model.name) - 700}, ())

    monkeypatch.setattr(placement, "costs", costs)
    best, keep = placement.cheapest("imxrt700cm", build)
    assert (best.manifest.model.name, set(keep)) == ("4000", {"conv2d"})
    assert [set(keep) for keep in asked] == [set(), {"conv2d"}, {"conv2d"}]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (
            "cortex-m33",
            "`--partition cost` compares a Neutron with the CPU; `cortex-m33` has none\n\nhint: build for "
            "`imxrt700cm`, or with `--partition npu-first`",
        ),
        (
            "imxrt700",
            "`--partition cost` compares with int8 operators on the CPU, which `imxrt700` does not have\n\n"
            "hint: build for `imxrt700cm`, or with `--partition npu-first`",
        ),
    ],
)
def test_targets_that_cannot_be_compared_are_refused_before_anything_is_built(target: str, text: str):
    with pytest.raises(OptionError) as caught:
        api.build_model("no-such-model", target=target, options=api.BuildOptions(partition=api.Partitioning.COST))
    assert str(caught.value) == text
