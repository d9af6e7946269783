"""Gathers the quality measurements of a quantized model that a build keeps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.builds import samples
from deuteron.builds.manifest import TensorInfo
from deuteron.builds.quality import OutputQuality, Quality
from deuteron.frontend import saved
from deuteron.frontend.cortex_m import numerical_check
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.quality.findings import findings
from deuteron.frontend.quality.measure import Measured, measure

_STORED = 4 << 20
"""The maximum number of bytes of the kept samples and the float model's outputs."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements for the manifest, their samples, and warnings."""

    quality: Quality
    samples: samples.Stored
    findings: tuple[str, ...]


def gather(
    floats: fx.GraphModule,
    quantized: fx.GraphModule,
    program: ExportedProgram,
    outputs: Sequence[TensorInfo],
    batches: Sequence[Inputs],
    wanted: Sequence[Sequence[Tensor]] | None = None,
) -> Evidence:
    """Compare the quantized model with the float model on these batches.

    Args:
        floats: the float model.
        quantized: the quantized model.
        program: its program, which determines the dtypes of inputs.
        outputs: of the program.
        batches: the samples; for a program with variables the first steps of a sequence, with the float model's
            variables before each.
        wanted: the user's module's outputs for each sample, as the program's reference; by default the float model's.
    """
    variables = len(program.graph_signature.buffers_to_mutate)
    measured = measure(floats, quantized, batches, variables)
    stored = samples.Stored(
        tuple(_arrays(numerical_check.program_inputs(program, quantized, batch)) for batch in batches),
        tuple(map(_arrays, wanted or measured.wanted)),
    ).within(_STORED, is_sequence=variables > 0)
    quality = Quality(
        len(batches), len(stored.inputs), outputs=_outputs(measured, outputs), layers=measured.layer_qualities()
    )
    return Evidence(quality, stored, findings(floats, quantized, measured))


def _outputs(measured: Measured, infos: Sequence[TensorInfo]) -> tuple[OutputQuality, ...]:
    """The qualities of the outputs, with the scales of outputs that are quantized in the program."""
    listed: list[OutputQuality] = []
    found_of_outputs = measured.output_qualities()[: len(infos)]  # variables follow
    for i, (found, info) in enumerate(zip(found_of_outputs, infos, strict=True)):
        affine: saved.Affine | None = measured.outputs[i].affine if i in measured.outputs else None
        if affine is not None and info.dtype in ("int8", "int16"):
            listed.append(replace(found, scale=affine.scale, zero_point=affine.zero_point))
        else:
            listed.append(found)
    return tuple(listed)


def _arrays(values: Sequence[Tensor]) -> samples.Sample:
    return tuple(value.detach().contiguous().numpy() for value in values)
