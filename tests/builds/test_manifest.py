import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deuteron.arch.cores import Work
from deuteron.builds import manifest as m
from deuteron.builds.options import BuildOptions
from deuteron.errors import FormatError, InputError
from deuteron.npu.dataflow import Constant, Dataflow
from deuteron.npu.provenance import KernelOrigin

PTE = b"a program"
SOURCE = m.Source("/home/me/net.py", 12, "return self.conv(x)", "features.0")
MANIFEST = m.Manifest(
    deuteron="0.1.0",
    executorch="1.5.1",
    torch="2.13.0",
    target="imxrt700",
    converter="open",
    options=BuildOptions(remove_quant_io_ops=True),
    model=m.ModelInfo("digits"),
    files={"model.pte": m.entry_of(PTE)},
    inputs=(m.TensorInfo((1, 8), "float32", "x"),),
    outputs=(m.TensorInfo((1, 2), "float32"),),
    nodes=(m.Node("aten_addmm_default", "aten::addmm", "linear", (SOURCE,), 0, "", Work.LINEAR, 2, 16, 26),),
    partitions=(
        m.Partition(
            payload_sha256="ab" * 32,
            microcode_bytes=160,
            weights_bytes=64,
            kernels_bytes=16,
            scratch_bytes=32,
            scratch_proven_optimal=True,
            prefetch_bound=9000,
            prefetch_proven_optimal=True,
            prefetch_bytes=0,
            inputs=(m.TensorInfo((1, 8), "int8", "in"),),
            outputs=(m.TensorInfo((1, 2), "int8", "out"),),
            ops=(m.PartitionOp(0, "FULLY_CONNECTED", ("out",), ("aten_addmm_default",), (SOURCE,)),),
            kernels=(KernelOrigin(0, "fully_connected_s8", (0,)),),
            dataflow=Dataflow(("in",), ("out",), (Constant("w", 0, 16),), (("in+0", "w+0", "out+0"),)),
        ),
    ),
    cpu_ops=(m.CpuOp("quantized_decomposed::quantize_per_tensor", "q", (), "", "quantizes", Work.QUANTIZE, 8),),
    warnings=("no calibration data",),
)


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / "model.pte").write_bytes(PTE)
    (tmp_path / "build.json").write_text(MANIFEST.to_json())
    return tmp_path


def test_a_manifest_survives_json(build: Path):
    assert m.read(build) == MANIFEST


def test_the_schema_number_comes_first():
    assert next(iter(json.loads(MANIFEST.to_json()))) == "schema"


def test_a_program_that_is_not_the_one_described(build: Path):
    (build / "model.pte").write_bytes(b"b program")
    with pytest.raises(FormatError) as caught:
        m.read(build)
    assert str(caught.value) == (
        f"{build}: `model.pte` is not the file that `build.json` describes: 9 bytes with SHA-256 4cb3eb9e4a6d, "
        "expected 9 bytes with 06a9fd7d0b6e\n\nhint: build the model again"
    ).replace("4cb3eb9e4a6d", m.entry_of(b"b program").sha256[:12]).replace("06a9fd7d0b6e", m.entry_of(PTE).sha256[:12])


def test_a_file_that_is_missing(build: Path):
    (build / "model.pte").unlink()
    with pytest.raises(FormatError) as caught:
        m.read(build)
    assert str(caught.value) == f"{build}: `model.pte` is missing though `build.json` lists it"


def test_directories_that_are_no_builds(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for path, text in (
        (tmp_path / "none", f"`{tmp_path / 'none'}` does not exist"),
        (tmp_path / "file", f"`{tmp_path / 'file'}` is not a directory"),
        (tmp_path, f"`{tmp_path}` has no `build.json`"),
    ):
        with pytest.raises(InputError) as caught:
            m.read(path)
        hint = "hint: give a directory that `deuteron build MODEL -o DIR` has written"
        assert str(caught.value) == f"{text}\n\n{hint}"


Edit = Callable[[dict[str, object]], object]


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (
            lambda d: d.update(schema=2),
            "`build.json` has schema 2, this version of Deuteron reads schema 9\n\nhint: build the model again",
        ),
        (lambda d: d.pop("target"), "`build.json` lacks the entry `target`\n\nhint: build the model again"),
        (
            lambda d: d["partitions"][0]["ops"][0].update(colour="red"),
            "`build.json` has an unknown entry `partitions[0].ops[0].colour`\n\nhint: build the model again",
        ),
        (
            lambda d: d["partitions"][0].update(scratch_bytes="32"),
            "`build.json` cannot have '32' at `partitions[0].scratch_bytes`\n\nhint: build the model again",
        ),
        (
            lambda d: d.update(files=[]),
            "`build.json` cannot have [] at `files`\n\nhint: build the model again",
        ),
        (
            lambda d: d["inputs"][0].update(shape=[1, True]),
            "`build.json` cannot have True at `inputs[0].shape[1]`\n\nhint: build the model again",
        ),
    ],
)
def test_a_damaged_manifest_names_the_entry(edit: Edit, text: str):
    data = json.loads(MANIFEST.to_json())
    edit(data)
    with pytest.raises(FormatError) as caught:
        m.Manifest.from_json(json.dumps(data))
    assert str(caught.value) == text


def test_a_manifest_that_is_not_json():
    with pytest.raises(FormatError) as caught:
        m.Manifest.from_json('{"schema": 1')
    assert str(caught.value) == "`build.json` is not JSON: Expecting ',' delimiter: line 1 column 13 (char 12)"


def test_a_manifest_that_is_not_text(build: Path):
    (build / "build.json").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError) as caught:
        m.read(build)
    assert str(caught.value) == f"{build / 'build.json'}: `build.json` is not UTF-8 text"
