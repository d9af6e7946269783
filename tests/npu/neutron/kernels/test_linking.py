"""Firmware linked with kernel selections: what the image holds, what the order of objects does, absent kernels."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from tests import full, store
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.kernels.linking import HOST, M33, Toolchain, functions

from deuteron import api, native
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.convert import Conversion, convert_graph
from deuteron.npu.neutron.kernels.catalogue import ADD, CONV2D, KERNELS, LUT
from deuteron.npu.neutron.kernels.selection import Selection
from deuteron.runtime import driver
from deuteron.runtime.driver import Driver
from deuteron.views.inspect import inspect

ALL = [kernel.symbol for kernel in KERNELS]
SMALL_MODELS = ["digits", "ds_cnn", "resnet8", "deep_autoencoder"]
MODELS = [example.name for example in api.REFERENCES if example.name != "mobilenet_v2"]
chosen = pytest.mark.parametrize("names", full.first([SMALL_MODELS, MODELS], 1), ids=len)
ENTRY_POINTS = ("neutronInit", "neutronModelPrepare", "neutronModelUnprepare", "neutronRunBlocking")
BESIDE_THEM = ("neutronGetModelContextSize", "dtn_error_string")

both = pytest.mark.parametrize("tools", [HOST, M33], ids=lambda tools: tools.name)


def symbols(found: Selection) -> list[str]:
    return [kernel.symbol for kernel in found.kernels]


# The order of the linker's arguments (spec/kernel-selection.md, section 4).


@both
def test_without_a_selection_every_kernel_is_linked(tools: Toolchain, tmp_path: Path) -> None:
    assert functions(tools.link(tmp_path / "a.elf", tools.program(tmp_path), tools.library())) == ALL


@both
@pytest.mark.parametrize("kernels", [(), (LUT,), (CONV2D, ADD)], ids=["none", "one", "two"])
def test_a_selection_before_the_library_decides(tools: Toolchain, tmp_path: Path, kernels: tuple) -> None:
    chosen = Selection.of(kernels)
    objects = tools.program(tmp_path), tools.selection(chosen, tmp_path)
    for order in (objects, objects[::-1]):
        assert functions(tools.link(tmp_path / "a.elf", *order, tools.library())) == symbols(chosen)


def test_the_table_is_not_writable(tmp_path: Path) -> None:
    """In the library's own table and in a selection: with the code, so that no stray write changes what is called."""
    chosen = M33.selection(Selection.of([LUT]), tmp_path)
    for tables in ((M33.library(),), (chosen, M33.library())):
        with M33.link(tmp_path / "a.elf", M33.program(tmp_path), *tables).open("rb") as file:
            elf = ELFFile(file)
            (table,) = elf.get_section_by_name(".symtab").get_symbol_by_name("neutronKernels")
            section = elf.get_section(table["st_shndx"])
            assert section["sh_flags"] & SH_FLAGS.SHF_WRITE == 0, section.name


@both
def test_a_selection_after_the_library_does_not_link(tools: Toolchain, tmp_path: Path) -> None:
    chosen = tools.selection(Selection.of([LUT]), tmp_path)
    with pytest.raises(AssertionError, match="multiple definition of `neutronKernels'"):
        tools.link(tmp_path / "a.elf", tools.program(tmp_path), tools.library(), chosen)


@both
def test_a_selection_in_an_archive_is_not_seen_unless_asked_for(tools: Toolchain, tmp_path: Path) -> None:
    chosen = tools.archive([tools.selection(Selection.of([LUT]), tmp_path)], tmp_path / "libmodel.a")
    program, library = tools.program(tmp_path), tools.library()
    for order in ((chosen, program, library), (program, chosen, library), (program, library, chosen)):
        assert functions(tools.link(tmp_path / "a.elf", *order)) == ALL
    asked = tools.link(tmp_path / "a.elf", "-Wl,-u,neutronKernels", chosen, program, library)
    assert functions(asked) == [LUT.symbol]


@both
def test_kernels_are_left_out_without_section_collection_too(tools: Toolchain, tmp_path: Path) -> None:
    chosen = tools.selection(Selection.of([LUT]), tmp_path)
    linked = tools.link(tmp_path / "a.elf", "-Wl,--no-gc-sections", tools.program(tmp_path), chosen, tools.library())
    assert functions(linked) == [LUT.symbol]


# Kernels that a model needs and an image lacks.


@pytest.fixture
def linked_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type["LinkedDriver"]]:
    LinkedDriver.folder = tmp_path
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    driver._load.cache_clear()
    yield LinkedDriver
    driver._load.cache_clear()


class LinkedDriver(Driver):
    """The driver of this host with the kernels of one selection."""

    folder: Path

    def __init__(self, chosen: Selection) -> None:
        wanted = [f"-Wl,-u,{name}" for name in (*ENTRY_POINTS, *BESIDE_THEM)]
        parts = (*wanted, HOST.selection(chosen, self.folder), HOST.library())
        output = self.folder / "libdeuteron_driver_ref.so"
        HOST.link(output, "-shared", "-Wl,-Bsymbolic", *parts)
        assert functions(output) == symbols(chosen)
        super().__init__("driver_ref")  # like the reference, a device has no form of the weights for vectors


def conversion(seed: int) -> Conversion:
    graph = random_graph(seed, ops=6)
    names = ("OP",) * (1 + max(index for op in graph.ops for index in op.origin))
    return convert_graph(graph, names)


SEED = next(seed for seed in range(100) if len(conversion(seed).selection.kernels) > 3)


def test_the_selected_kernels_are_enough(linked_driver: type[LinkedDriver]) -> None:
    made, graph = conversion(SEED), random_graph(SEED, ops=6)
    inputs = [value.tobytes() for value in random_inputs(graph, 0)]
    assert made.container is not None
    found = linked_driver(made.selection).run(made.container, inputs)
    assert len(found) == len(graph.outputs)


@pytest.mark.parametrize("index", range(len(conversion(SEED).selection.kernels)))
def test_a_model_that_needs_an_absent_kernel_is_refused_by_name(linked_driver: type[LinkedDriver], index: int) -> None:
    made = conversion(SEED)
    assert made.container is not None
    absent = made.selection.kernels[index]
    others = Selection.of(set(made.selection.kernels) - {absent})
    with pytest.raises(UnsupportedError) as caught:
        linked_driver(others).load(made.container)
    assert caught.value.message == (
        "the driver rejected the microcode: a kernel that the model calls is not linked into this driver (kernel "
        f"{absent.kind}, {absent.name})"
    )


# Whole models.


def directories(names: Sequence[str]) -> list[Path]:
    """The build directories of reference models, with their kernel selection files."""
    return [store.model(name) for name in names]


def called(directory: Path) -> set[str]:
    """The functions of the kernels that the microcode of a build calls."""
    partitions = inspect(directory).partitions
    return {f"dtn_k_{call.kernel}" for partition in partitions for call in partition.program.calls}


@pytest.mark.slow
@both
@chosen
def test_a_reference_model_gets_the_kernels_that_its_microcode_calls(
    tools: Toolchain, names: Sequence[str], tmp_path: Path
) -> None:
    program, library = tools.program(tmp_path), tools.library()
    for directory in directories(names):
        (file,) = directory.glob("*_kernel_selection.c")
        linked = tools.link(tmp_path / "a.elf", program, tools.compile(file, tmp_path / "selection.o"), library)
        assert set(functions(linked)) == called(directory)
        assert len(called(directory)) < len(KERNELS)


@pytest.mark.slow
@both
@chosen
def test_two_reference_models_get_the_kernels_of_both(tools: Toolchain, names: Sequence[str], tmp_path: Path) -> None:
    program, library = tools.program(tmp_path), tools.library()
    for pair in combinations(directories(names), 2):
        merged = api.merge_kernel_selections(
            [file for directory in pair for file in directory.glob("*_kernel_selection.c")],
            tmp_path / "merged.c",
            force=True,
        )
        linked = tools.link(
            tmp_path / "a.elf", program, tools.compile(tmp_path / "merged.c", tmp_path / "merged.o"), library
        )
        assert set(functions(linked)) == called(pair[0]) | called(pair[1]) == set(symbols(merged))
