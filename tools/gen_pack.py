"""Write `firmware/Deuteron.Deuteron.pdsc`, the description of the firmware library as a CMSIS-Pack.

A component per part of the library and per group of Cortex-M operators; the core decides which inner loops. Run
without arguments to write it, with `--check` to fail when the committed one is stale.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from deuteron import __version__
from deuteron.arch.cores import InnerWork
from deuteron.board import library
from deuteron.board.toolchain import Source
from deuteron.native import FIRMWARE

DESCRIPTION = FIRMWARE / "Deuteron.Deuteron.pdsc"
SCHEMA = "1.7.7"
URL = "https://deuteron.invalid/"
"""Where packs can be had: there is no such place yet, and the schema wants one."""
CONDITIONS = {InnerWork.MVE: "Has MVE", InnerWork.DSP: "Has DSP", InnerWork.PORTABLE: "Has neither"}

OPERATORS: Mapping[str, str] = {
    "Convolutions and products": """
        convolution_s16 interleaved_conv2d interleaved_linear quantized_batch_matmul quantized_conv2d
        quantized_conv2d_s4 quantized_depthwise_conv2d quantized_depthwise_conv2d_s4 quantized_linear
        quantized_linear_s4 quantized_transpose_conv2d winograd_conv2d
    """,
    "Elementwise": """
        broadcast_add broadcast_add_s16 broadcast_mul broadcast_mul_s16 compare compare_scalar extremum_s16
        interpolate_s16 maximum minimum quantized_activation quantized_add quantized_div quantized_mul requantize_s16
        requantize_s8 where
    """,
    "Pools and reductions": """
        argmax_argmin cumsum pool_s16 quantized_avg_pool2d quantized_max_pool2d reduce_extremum
        reduce_extremum_s16 reduce_sum reduce_sum_s16
    """,
    "Norms": "log_softmax masked_softmax normalise softmax",
    "Recurrent layers": "gru lstm rnn",
    "Layout": "copy decompress gather pad pad_s16 resize_bilinear",
}
"""Files `dtn_cm_*.c` of each group; every one is in a group."""


def conditions() -> ET.Element:
    """Conditions of components and files on the core and on each other."""
    element = ET.Element("conditions")

    def condition(name: str, text: str, *asked: tuple[str, dict[str, str]]) -> None:
        one = ET.SubElement(element, "condition", id=name)
        ET.SubElement(one, "description").text = text
        for kind, what in asked:
            ET.SubElement(one, kind, what)

    condition("Has MVE", "The core has vectors", *(("accept", {"Dmve": value}) for value in ("MVE", "FP_MVE")))
    condition(
        "Has DSP",
        "The core has DSP instructions and no vectors",
        *(("deny", {"Dmve": value}) for value in ("MVE", "FP_MVE")),
        *(("accept", {"Dcore": core}) for core in ("Cortex-M4", "Cortex-M7")),
        ("accept", {"Ddsp": "DSP"}),
    )
    condition(
        "Has neither",
        "The core has neither DSP instructions nor vectors",
        *(("deny", {"Dcore": core}) for core in ("Cortex-M4", "Cortex-M7")),
        *(("deny", {"Dmve": value}) for value in ("MVE", "FP_MVE")),
        ("deny", {"Ddsp": "DSP"}),
    )
    condition("Executor", "Components over the executor", ("require", component("Executor")))
    condition("Operators", "Operators over their common part", ("require", component("Operators", "Common")))
    return element


def component(group: str, sub: str = "") -> dict[str, str]:
    """The attributes that name a component."""
    return {"Cclass": "Machine Learning", "Cgroup": f"Deuteron {group}"} | ({"Csub": sub} if sub else {})


def element(name: Mapping[str, str], text: str, sources: Iterable[tuple[Path, str]], condition: str = "") -> ET.Element:
    """A component of C files, each with the condition under which it is compiled, if any."""
    one = ET.Element("component", {**name, "Cversion": __version__} | ({"condition": condition} if condition else {}))
    ET.SubElement(one, "description").text = text
    files = ET.SubElement(one, "files")
    ET.SubElement(files, "file", category="include", name="include/")
    for path, only in sources:
        where = path.relative_to(FIRMWARE).as_posix()
        ET.SubElement(files, "file", {"category": "sourceC", "name": where} | ({"condition": only} if only else {}))
    return one


def harness() -> ET.Element:
    """The harness for a serial line, and a sample that a project copies."""
    folder, sample = FIRMWARE / "harness", FIRMWARE / "samples/harness"
    one = element(
        component("Harness"),
        "Serves `deuteron run` and `deuteron profile` over a serial line",
        always([folder / "frame.c", folder / "harness.c", FIRMWARE / "runner/run.c"]),
        "Executor",
    )
    files = one.find("files")
    if files is None:
        raise SystemExit("a component has no files")
    ET.SubElement(files, "file", category="include", name="harness/")
    for name, category in (("main.c", "sourceC"), ("line.h", "header"), ("line_cmsis.c", "sourceC")):
        where = (sample / name).relative_to(FIRMWARE).as_posix()
        copied = {"attr": "template", "select": "Harness over a CMSIS-Driver USART"}
        ET.SubElement(files, "file", {"category": category, "name": where, **copied})
    return one


def always(paths: Iterable[Path]) -> list[tuple[Path, str]]:
    """Files that are compiled for every core."""
    return [(path, "") for path in sorted(paths)]


def by_core(sources: Mapping[InnerWork, Iterable[Source]]) -> list[tuple[Path, str]]:
    """Files of the inner loops: those that all kinds of cores take, and each other for the kinds that take it."""
    chosen = {inner: {source.path for source in of_kind} for inner, of_kind in sources.items()}
    common = set[Path].intersection(*chosen.values())
    kinds = [(path, CONDITIONS[inner]) for inner, paths in chosen.items() for path in sorted(paths - common)]
    return [*always(common), *kinds]


def components() -> ET.Element:
    """All of the firmware library, and of what a port may take."""
    source = FIRMWARE / "src"
    operators = {path.stem: path for path in (source / "cortex_m").glob("dtn_cm_*.c")}
    groups = {sub: [operators.pop(f"dtn_cm_{name}") for name in names.split()] for sub, names in OPERATORS.items()}
    if operators:
        raise SystemExit(f"{', '.join(sorted(operators))} in no group of {Path(__file__).name}")
    tops = (
        element(
            component("Executor"),
            "Runs bundles: programs for the CPU, an NPU, or both",
            always(
                [*(source / "executor").glob("*.c"), *(source / "io").glob("*.c"), source / "driver/error_string.c"]
            ),
        ),
        element(
            component("Neutron"),
            "Driver and kernels of Neutron microcode",
            [
                *always(set((source / "driver").glob("*.c")) - {source / "driver/error_string.c"}),
                *always((source / "kernels/check").glob("*.c")),
                *by_core({kind: library.kernels(kind) for kind in CONDITIONS}),
            ],
            "Executor",
        ),
        element(
            component("Neutron", "All kernels"),
            "A table of all kernels, for images whose bundles bring none",
            always([source / "kernels/table_fast.c"]),
            "Executor",
        ),
        element(
            component("Ethos-U"),
            "Steps of an Ethos-U by Arm's driver, which has a separate pack",
            always((source / "executor/ethosu").glob("*.c")),
            "Executor",
        ),
        element(
            component("Operators", "Common"),
            "What Cortex-M operators share, and their inner loops for the core",
            [
                *always(path for path in (source / "cortex_m").glob("*.c") if not path.stem.startswith("dtn_cm_")),
                *by_core({kind: library.inner_work(kind) for kind in CONDITIONS}),
            ],
            "Executor",
        ),
        *(
            element(component("Operators", sub), f"Cortex-M operators: {sub.lower()}", always(paths), "Operators")
            for sub, paths in groups.items()
        ),
        element(
            component("Operators", "ExecuTorch"),
            "Operators of ExecuTorch's portable kernels, in float or as given",
            always((source / "operators").glob("*.c")),
            "Executor",
        ),
        element(
            component("Operators", "TFLite"),
            "Operators with the arithmetic of TFLite's reference kernels",
            always((source / "tflite").glob("*.c")),
            "Operators",
        ),
        element(component("Profile"), "Records of profiles", always((source / "profile").glob("*.c")), "Executor"),
        harness(),
    )
    listed = ET.Element("components")
    listed.extend(tops)
    return listed


def package() -> str:
    """The description's text."""
    root = ET.Element(
        "package",
        {
            "schemaVersion": SCHEMA,
            "xmlns:xs": "http://www.w3.org/2001/XMLSchema-instance",
            "xs:noNamespaceSchemaLocation": "PACK.xsd",
        },
    )
    for name, text in (
        ("vendor", "Deuteron"),
        ("name", "Deuteron"),
        ("description", "Neural networks on NPUs and Cortex-M: executor, drivers and operators"),
        ("url", URL),
    ):
        ET.SubElement(root, name).text = text
    releases = ET.SubElement(root, "releases")
    ET.SubElement(releases, "release", version=__version__).text = "The first"
    root.extend((conditions(), components()))
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def main() -> int:
    """0 when the description is written, or current."""
    if "--check" not in sys.argv[1:]:
        DESCRIPTION.write_text(package(), "utf-8")
    elif not DESCRIPTION.is_file() or DESCRIPTION.read_text("utf-8") != package():
        print(f"{DESCRIPTION.name} is stale: run tools/gen_pack.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
