"""ExecuTorch's export session up to the complete edge program."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deuteron.frontend import upstream_caches
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.pipeline import Flow
from deuteron.runtime.host import HostRunner

STAGES = ("quantize", "torch_export", "to_edge_transform_and_lower", "edge_program_manager_transform")


def edge_of(flow: Flow, module: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """The edge program manager that comes of a flow."""
    export = importlib.import_module("executorch.export")
    recipe = flow.recipe()
    recipe.pipeline_stages = [export.StageType(name) for name in STAGES]
    session = export.ExportSession(module, [inputs], recipe, generate_etrecord=flow.options.use_profiling)
    try:
        with upstream_caches.active():
            session.export()
    finally:
        flow.close()
    return session.get_stage_artifacts()[recipe.pipeline_stages[-1]].data


def check_runtime(edge: Any, inputs: tuple[Tensor, ...], path: Path) -> None:
    """ExecuTorch's runtime has the outputs of the edge program in PyTorch; `path` gets the program."""
    with torch.no_grad():
        wanted = flat(edge.exported_program().module(check_guards=False)(*inputs))
    path.write_bytes(edge.to_executorch().buffer)
    for ours, theirs in zip(HostRunner(path).run([x.numpy() for x in inputs]), wanted, strict=True):
        assert isinstance(theirs, Tensor)
        np.testing.assert_array_equal(ours, theirs.numpy())
