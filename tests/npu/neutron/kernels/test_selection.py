"""Kernel selection files: what is written, that nothing else is read, and what each fault is called."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deuteron.errors import DeuteronError, FormatError, OptionError
from deuteron.npu.neutron.kernels.catalogue import ADD, CONV2D, KERNELS, LUT
from deuteron.npu.neutron.kernels.selection import Selection, merge, parse, read, write
from deuteron.operators.program import Kernel

FIRMWARE = Path(__file__).parents[4] / "firmware"
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wmissing-prototypes", "-Wconversion", "-Wvla")
TEXT = """\
/*
 * Kernel selection of Deuteron 1.2.3 for microcode format 1.0.
 *
 * The kernels that a model's microcode calls, and no others. The object of this file must stand before the library on
 * the linker's command line. A program wrote it, and `deuteron kernels merge` reads it: do not edit.
 */
#include "deuteron/kernel.h"

#if DTN_MICROCODE_VERSION_MAJOR != 1 || DTN_MICROCODE_VERSION_MINOR < 0
#error "this kernel selection is for microcode format 1.0, which the driver of these headers does not run"
#endif

typedef enum NeutronKernelKind {
    NEUTRON_KERNEL_NONE = 0,
    NEUTRON_KERNEL_CONV2D_S8 = DTN_KERNEL_CONV2D_S8,
    NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_LUT_S8,
} NeutronKernelKind;

/* The table is constant. Tools look for the text of its declaration as it stands here, without that word. */
#define neutronKernels const neutronKernels
int32_t (*neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {
    [NEUTRON_KERNEL_NONE] = 0,
    [NEUTRON_KERNEL_CONV2D_S8] = dtn_k_conv2d_s8,
    [NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8,
};
"""
FOUND = Selection("1.2.3", (1, 0), (CONV2D, LUT))
AGAIN = "hint: write the file again with `--dump-kernel-selection-code`"


def refusal(action: Callable[[], object], kind: type[DeuteronError] = FormatError) -> str:
    with pytest.raises(DeuteronError) as caught:
        action()
    assert type(caught.value) is kind
    return str(caught.value)


def test_the_text_of_a_selection() -> None:
    assert FOUND.to_c() == TEXT
    assert parse(TEXT.encode(), "a.c") == FOUND


def test_kernels_are_selected_once_and_in_order() -> None:
    assert Selection.of([LUT, CONV2D, LUT, ADD]).kernels == (CONV2D, ADD, LUT)


@pytest.mark.parametrize("kernels", [[], [LUT], KERNELS], ids=["none", "one", "all"])
def test_what_is_written_is_read(tmp_path: Path, kernels: Sequence[Kernel]) -> None:
    path = tmp_path / "a_kernel_selection.c"
    write(path, Selection.of(kernels))
    assert read(path) == Selection.of(kernels)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert read(path) == Selection.of(kernels)


@pytest.mark.parametrize("kernels", [[], KERNELS], ids=["none", "all"])
@pytest.mark.parametrize("compiler", ["gcc", "arm-none-eabi-gcc"])
def test_it_compiles_without_a_warning(tmp_path: Path, compiler: str, kernels: Sequence[Kernel]) -> None:
    write(tmp_path / "all.c", Selection.of(kernels))
    command = (compiler, *WARNINGS, "-I", FIRMWARE / "include", "-c", tmp_path / "all.c", "-o", tmp_path / "all.o")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("microcode", "fits"),
    [((1, 0), True), ((1, 1), True), ((1, 2), True), ((1, 3), False), ((2, 0), False), ((0, 0), False)],
)
def test_the_headers_refuse_a_format_that_their_driver_does_not_run(
    tmp_path: Path, microcode: tuple[int, int], fits: bool
) -> None:
    write(tmp_path / "a.c", replace(FOUND, microcode=microcode))
    command = ("gcc", *WARNINGS, "-I", FIRMWARE / "include", "-fsyntax-only", tmp_path / "a.c")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == fits
    sentence = f"for microcode format {microcode[0]}.{microcode[1]}, which the driver of these headers does not run"
    assert (sentence in done.stderr) != fits


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "Kernel selection of Deuteron",
            "Kernel selection of eIQ",
            "a.c:2: this is not a kernel selection file of Deuteron: the line does not name the version that wrote it"
            "\n\nhint: give a file that `--dump-kernel-selection-code` wrote",
        ),
        (
            "NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_LUT_S8",
            "NEUTRON_KERNEL_LUT_S9 = DTN_KERNEL_LUT_S9",
            "a.c:16: there is no kernel `lut_s9`\n\nhint: use the Deuteron version that wrote the file",
        ),
        (
            "NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_LUT_S8",
            "NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_ADD_S8",
            f"a.c:16: the line gives kernel `lut_s8` what belongs to `add_s8`\n\n{AGAIN}",
        ),
        (
            "NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_LUT_S8",
            "NEUTRON_KERNEL_CONV2D_S8 = DTN_KERNEL_CONV2D_S8",
            f"a.c:16: kernel `conv2d_s8` is here and in line 15\n\n{AGAIN}",
        ),
        (
            "[NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8",
            "[NEUTRON_KERNEL_LUT_S8] = dtn_k_add_s8",
            f"a.c:24: the line gives kernel `lut_s8` what belongs to `add_s8`\n\n{AGAIN}",
        ),
        (
            "[NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8",
            "[NEUTRON_KERNEL_CONV2D_S8] = dtn_k_conv2d_s8",
            f"a.c:24: kernel `conv2d_s8` is here and in line 23\n\n{AGAIN}",
        ),
        (
            "    [NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8,\n",
            "",
            "a.c:24: the file is damaged: the line is `};` instead of `    [NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8,`"
            f"\n\n{AGAIN}",
        ),
        (
            "    NEUTRON_KERNEL_LUT_S8 = DTN_KERNEL_LUT_S8,\n",
            "",
            "a.c:23: the file is damaged: the line is `    [NEUTRON_KERNEL_LUT_S8] = dtn_k_lut_s8,` instead of `};`"
            f"\n\n{AGAIN}",
        ),
        (
            "DTN_MICROCODE_VERSION_MAJOR != 1",
            "DTN_MICROCODE_VERSION_MAJOR != 2",
            "a.c:9: the file is damaged: the line is `#if DTN_MICROCODE_VERSION_MAJOR != 2 || "
            "DTN_MICROCODE_VERSION_MINOR < 0` instead of "
            f"`#if DTN_MICROCODE_VERSION_MAJOR != 1 || DTN_MICROCODE_VERSION_MINOR < 0`\n\n{AGAIN}",
        ),
        ("};\n", "};", f"a.c:26: the file is damaged: it ends here instead of an empty line\n\n{AGAIN}"),
        ("_s8,\n};\n", "_s8,\n", f"a.c:25: the file is damaged: the line is `` instead of `}};`\n\n{AGAIN}"),
        ("};\n", "};\n\n", f"a.c:27: the file is damaged: the line is `` instead of its end\n\n{AGAIN}"),
        ("\n *\n", "\n *\xe9\n", f"a.c:3: the file is damaged: byte 0xC3 is not text\n\n{AGAIN}"),
    ],
)
def test_a_damaged_file(old: str, new: str, text: str) -> None:
    assert TEXT.count(old) == 1
    assert refusal(lambda: parse(TEXT.replace(old, new).encode(), "a.c")) == text


def test_kernels_in_another_order() -> None:
    swapped = TEXT.replace("CONV2D_S8", "@").replace("LUT_S8", "CONV2D_S8").replace("@", "LUT_S8")
    swapped = swapped.replace("dtn_k_lut", "@").replace("dtn_k_conv2d", "dtn_k_lut").replace("@", "dtn_k_conv2d")
    assert refusal(lambda: parse(swapped.encode(), "a.c")).startswith("a.c:15: the file is damaged: the line is ")


@pytest.mark.parametrize("data", [b"", b"\n", b"\0" * 100, b"\x7fELF"])
def test_what_is_something_else(data: bytes) -> None:
    assert refusal(lambda: parse(data, "a.c")).startswith("a.c:2: this is not a kernel selection file of Deuteron")


def _refused_or_the_same(data: bytes) -> FormatError | None:
    """The refusal of a file; None for one that says exactly what the selection found in it says."""
    try:
        found = parse(data, "a.c")
    except FormatError as error:
        return error
    assert found.to_c().encode() == data.replace(b"\r\n", b"\n")
    return None


LINES = st.sampled_from(TEXT.splitlines(keepends=True))


@settings(max_examples=300)
@given(st.data())
def test_any_change_is_refused_and_placed(data: st.DataObject) -> None:
    lines = TEXT.splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 1))
    fresh = data.draw(st.one_of(LINES, st.text(max_size=90), st.just("")))
    count = data.draw(st.integers(0, 2))
    changed = "".join((*lines[:at], fresh, *lines[at + count :])).encode("utf-8", "surrogatepass")
    if error := _refused_or_the_same(changed):
        assert error.where is not None
        assert error.where.startswith("a.c:")


@settings(max_examples=100)
@given(st.binary(max_size=200), st.integers(0, len(TEXT)))
def test_any_bytes_are_refused(noise: bytes, at: int) -> None:
    data = TEXT[:at].encode() + noise + TEXT[at:].encode()
    _refused_or_the_same(data)


# Merging.


def files(folder: Path, *selections: Selection) -> list[Path]:
    paths = [folder / f"{index}_kernel_selection.c" for index in range(len(selections))]
    for path, selection in zip(paths, selections, strict=True):
        write(path, selection)
    return paths


def test_merging_any_number(tmp_path: Path) -> None:
    paths = files(tmp_path, *(Selection.of([kernel, LUT]) for kernel in reversed(KERNELS)))
    assert merge(paths) == Selection.of(KERNELS)
    assert merge(paths[:1]) == Selection.of([KERNELS[-1], LUT])


def test_merging_keeps_the_version_of_the_files(tmp_path: Path) -> None:
    paths = files(tmp_path, FOUND, replace(FOUND, kernels=(ADD,)))
    assert merge(paths) == replace(FOUND, kernels=(CONV2D, ADD, LUT))


@pytest.mark.parametrize(
    ("other", "stamp"),
    [
        (replace(FOUND, converter="1.2.4"), "Deuteron 1.2.4 for microcode format 1.0"),
        (replace(FOUND, microcode=(1, 1)), "Deuteron 1.2.3 for microcode format 1.1"),
    ],
)
def test_merging_refuses_different_versions(tmp_path: Path, other: Selection, stamp: str) -> None:
    paths = files(tmp_path, FOUND, FOUND, other)
    assert refusal(lambda: merge(paths)) == (
        f"{paths[2]}:2: the file is of {stamp}, `{paths[0]}` of Deuteron 1.2.3 for microcode format 1.0\n\n"
        "hint: convert all models with one version of Deuteron"
    )


def test_merging_names_the_damaged_file(tmp_path: Path) -> None:
    paths = files(tmp_path, FOUND, FOUND)
    paths[1].write_text(TEXT.replace("dtn_k_lut_s8", "dtn_k_add_s8"))
    assert refusal(lambda: merge(paths)) == (
        f"{paths[1]}:24: the line gives kernel `lut_s8` what belongs to `add_s8`\n\n{AGAIN}"
    )


def test_merging_one_file_twice_or_none(tmp_path: Path) -> None:
    (path,) = files(tmp_path, FOUND)
    again = tmp_path / "elsewhere" / ".." / path.name
    (tmp_path / "elsewhere").mkdir()
    for twin in (path, again):
        assert refusal(lambda twin=twin: merge([path, twin]), OptionError) == (
            f"`{path}` is given more than once\n\nhint: name each file once"
        )
    assert refusal(lambda: merge([]), OptionError) == (
        "there is no kernel selection file to merge\n\nhint: name one or more"
    )
