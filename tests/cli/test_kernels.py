"""`deuteron kernels`: what merging writes, what an image, a file and a build are said to hold, and errors."""

import json
import shutil
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from tests import store
from tests.npu.neutron.kernels.linking import M33

from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.kernels.catalogue import ADD, CONV2D, FULLY_CONNECTED, LUT
from deuteron.npu.neutron.kernels.selection import Selection

from .conftest import Result

Run = Callable[..., Result]


def fixed(*kernels: selection.Kernel) -> Selection:
    return Selection("1.2.3", (1, 0), kernels)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.c", tmp_path / "b.c"
    selection.write(paths[0], fixed(CONV2D, LUT))
    selection.write(paths[1], fixed(ADD, LUT))
    return paths


def test_merge(deuteron: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    merged = tmp_path / "m.c"
    assert deuteron("kernels", "merge", *pair, "-o", merged) == Result(
        0,
        f"{merged}: kernel selection of Deuteron 1.2.3 for microcode format 1.0, 3 of 17 kernels\n"
        "    1  conv2d_s8               dtn_k_conv2d_s8\n"
        "    4  add_s8                  dtn_k_add_s8\n"
        "   12  lut_s8                  dtn_k_lut_s8\n",
        f"wrote `{merged}`\n",
    )
    assert selection.read(merged) == fixed(CONV2D, ADD, LUT)


def test_merge_replaces_nothing_unless_asked(deuteron: Run, pair: tuple[Path, Path]) -> None:
    before = pair[0].read_bytes()
    assert deuteron("kernels", "merge", *pair, "-o", pair[0]) == Result(
        2, "", f"error: `{pair[0]}` exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    assert pair[0].read_bytes() == before
    assert deuteron("kernels", "merge", *pair, "-o", pair[0], "--force").code == 0
    assert selection.read(pair[0]) == fixed(CONV2D, ADD, LUT)


def test_merge_of_a_damaged_file_writes_nothing(deuteron: Run, pair: tuple[Path, Path], tmp_path: Path) -> None:
    pair[1].write_text(pair[1].read_text().replace("[NEUTRON_KERNEL_LUT_S8]", "[NEUTRON_KERNEL_ADD_S8]"))
    assert deuteron("kernels", "merge", *pair, "-o", tmp_path / "m.c") == Result(
        1,
        "",
        f"error: {pair[1]}:24: the line gives kernel `add_s8` what belongs to `lut_s8`\n\n"
        "hint: write the file again with `--dump-kernel-selection-code`\n",
    )
    assert sorted(tmp_path.iterdir()) == sorted(pair)


def test_what_calls_no_kernel_is_said_to(deuteron: Run, tmp_path: Path) -> None:
    path = tmp_path / "none.c"
    selection.write(path, fixed())
    shown = deuteron("kernels", "show", path).out
    assert shown.endswith(" for microcode format 1.0, 0 of 17 kernels: the model calls no kernel\n")


def test_show_a_file(deuteron: Run, pair: tuple[Path, Path]) -> None:
    assert deuteron("kernels", "show", pair[1]) == Result(
        0,
        f"{pair[1]}: kernel selection of Deuteron 1.2.3 for microcode format 1.0, 2 of 17 kernels\n"
        "    4  add_s8                  dtn_k_add_s8\n"
        "   12  lut_s8                  dtn_k_lut_s8\n",
        "",
    )


def test_show_an_image(deuteron: Run, tmp_path: Path) -> None:
    parts = M33.program(tmp_path), M33.selection(Selection.of([CONV2D]), tmp_path), M33.library()
    path = M33.link(tmp_path / "firmware.elf", "-Wl,-u,dtn_k_add_s8", "-Wl,--no-gc-sections", *parts)
    assert deuteron("kernels", "show", path) == Result(
        0,
        f"{path}: image, 1 of 17 kernels\n"
        "    1  conv2d_s8               dtn_k_conv2d_s8\n"
        "linked, but not in the table: dtn_k_add_s8\n",
        "",
    )
    assert json.loads(deuteron("kernels", "show", tmp_path, "--json").out) == {
        "schema": 1,
        "path": str(path),
        "kind": "image",
        "kernels": [{"number": 1, "name": "conv2d_s8", "function": "dtn_k_conv2d_s8"}],
        "unused": ["dtn_k_add_s8"],
        "ethos_u": None,
    }


@pytest.mark.slow
def test_show_a_build(deuteron: Run, tmp_path: Path) -> None:
    import torch
    from torch import nn

    from deuteron import api

    x = torch.zeros(1, 8)

    class Erf(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erf(x)

    module = nn.Sequential(nn.Linear(8, 8), Erf(), nn.Sigmoid())
    api.build(module, x, calibration=[x], output=tmp_path / "out")
    result = deuteron("kernels", "show", tmp_path / "out")
    assert result.out == (
        f"{tmp_path / 'out'}: build directory, 2 of 17 kernels\n"
        "    3  fully_connected_s8      npu 0\n"
        "   12  lut_s8                  npu 0\n"
    )
    assert json.loads(deuteron("kernels", "show", tmp_path / "out", "--json").out)["kernels"] == [
        {"number": 3, "name": "fully_connected_s8", "partitions": ["npu 0"]},
        {"number": 12, "name": "lut_s8", "partitions": ["npu 0"]},
    ]
    pte = tmp_path / "out" / "model.pte"
    assert deuteron("kernels", "show", pte).out == result.out.replace(
        f"{tmp_path / 'out'}: build directory", f"{pte}: ExecuTorch program"
    )
    assert deuteron("kernels", "show", pte, "--check-override") == Result(
        2,
        "",
        f"error: `--check-override` checks an image, but `{pte}` is something else: ExecuTorch program\n\nhint: give "
        "the ELF file that the linker wrote\n",
    )

    one = tmp_path / "one.c"
    selection.write(one, Selection.of([ADD, LUT]))
    assert deuteron("kernels", "merge", tmp_path / "out", one, "-o", tmp_path / "m.c").code == 0
    assert selection.read(tmp_path / "m.c") == Selection.of([FULLY_CONNECTED, ADD, LUT])
    selection.write(one, fixed(ADD))
    other = Selection.of([]).stamp
    assert deuteron("kernels", "merge", one, tmp_path / "out", "-o", tmp_path / "n.c") == Result(
        1,
        "",
        f"error: {tmp_path / 'out'}: the file is of {other}, `{one}` of {fixed().stamp}\n\n"
        "hint: convert all models with one version of Deuteron\n",
    )


@pytest.mark.parametrize(
    ("entry", "value", "code", "text"),
    [
        (
            "deuteron",
            "0.0.1",
            1,
            "{path}: the build was made by Deuteron 0.0.1, this is {version}\n\n"
            "hint: build all models with one version of Deuteron",
        ),
        (
            "converter",
            "vendor",
            2,
            "`{path}` was built with the vendor's converter, whose kernels are not ours\n\n"
            "hint: merge its kernel selection files with the vendor's own command",
        ),
    ],
)
@pytest.mark.slow
def test_merge_of_builds_whose_kernels_are_others(
    deuteron: Run, tmp_path: Path, entry: str, value: str, code: int, text: str
) -> None:
    from tests.runtime import models

    path = shutil.copytree(store.network(models.conv, "conv"), tmp_path / "out")
    manifest = path / "build.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {entry: value}))
    expected = text.format(path=path, version=version("deuteron"))
    assert deuteron("kernels", "merge", path, "-o", tmp_path / "m.c") == Result(code, "", f"error: {expected}\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "`{path}` cannot be read: No such file or directory\n\nhint: check its name and its folder"),
        (
            b"int main;\n",
            "{path}:2: this is not a kernel selection file of Deuteron: the line does not name the version that wrote "
            "it\n\nhint: give a file that `--dump-kernel-selection-code` wrote",
        ),
        (
            b"!<arch>\n",
            "{path}: this is an archive, which the linker has yet to choose from\n\n"
            "hint: give a program or library that was linked with Deuteron's driver",
        ),
        (
            bytes(8),
            "{path}: the file cannot be inspected: it starts with 00 00 00 00 00 00 00 00\n\nhint: give a build "
            "directory, a `.pte`, a `.microcode` file or a TFLite file",
        ),
        (
            b"\x7fELF\2\1\1",
            "{path}: the ELF file is damaged: ELFParseError: expected 1, found 0\n\nhint: link the image again",
        ),
    ],
)
def test_show_what_is_none(deuteron: Run, tmp_path: Path, content: bytes | None, text: str) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    assert deuteron("kernels", "show", path) == Result(1, "", f"error: {text.format(path=path)}\n")
