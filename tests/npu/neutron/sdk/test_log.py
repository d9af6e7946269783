"""ExecuTorch's own reader of the log finds exactly the provenance in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.graphs import random_graph
from tests.npu.neutron.sdk.models import parallel

from deuteron.npu.neutron import sdk
from deuteron.npu.neutron.convert import Provenance, convert, source_ops
from deuteron.npu.neutron.sdk import Session, library
from deuteron.npu.neutron.sdk.log import conversion_log
from deuteron.npu.neutron.sdk.surface import CompilationContext, Converter
from deuteron.npu.neutron.tflite.emit import emit

FIRST_HANDLE = 100
GRAPHS = 150


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """ExecuTorch's `NeutronMap`."""
    sdk.install(Session(tmp_path_factory.mktemp("sdk")))  # its package asks for ours when it is imported
    try:
        from executorch.backends.nxp.backend.neutron_map import NeutronMap
    finally:
        sdk.uninstall()
    return NeutronMap


def _handles(count: int) -> dict[int, tuple[int, ...]]:
    """Edge handle -> TFLite operators, one each."""
    return {FIRST_HANDLE + index: (index,) for index in range(count)}


def _expected(provenance: Provenance) -> Mapping[int, tuple[int, ...]]:
    kernels = {kernel.index: tuple(FIRST_HANDLE + index for index in kernel.ops) for kernel in provenance.kernels}
    return {**kernels, len(kernels): ()}  # the last is the profile's closing record


def test_the_converter_prints_it_when_asked_to(reader: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, context = parallel(), CompilationContext()
    context.targetOpts = library.getNeutronTarget("imxrt700")
    for name in ("dumpAfterImport", "dumpAfterGenerate"):
        setattr(context.compilationOpts, name, "console")
    context.compilationOpts.useProfiling = context.compilationOpts.verbose = True
    Converter(Session(tmp_path)).convertModel(list(source), context)
    log = capfd.readouterr().out
    assert log.count("Graphs:") == 2
    assert reader(log, _handles(8)).get_neutron_to_edge_map() == _expected(convert(source, "imxrt700").provenance)


@pytest.mark.full
def test_on_random_graphs(reader: Any) -> None:
    for seed in range(GRAPHS):
        source = emit(random_graph(seed, stock=True))
        ops, conversion = source_ops(source), convert(source, "imxrt700")
        if conversion.container is None:
            continue
        found = reader(conversion_log(ops, conversion.provenance), _handles(len(ops))).get_neutron_to_edge_map()
        assert found == _expected(conversion.provenance), f"seed {seed}"
