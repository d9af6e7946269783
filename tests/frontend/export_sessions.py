"""ExecuTorch's export session up to the complete edge program."""

import importlib
from typing import Any

from torch import Tensor, nn

from deuteron.frontend import upstream_caches
from deuteron.frontend.pipeline import Flow

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
