"""What a build keeps of how good its quantised model is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, fx
from torch.export import ExportedProgram

from deuteron.builds import samples
from deuteron.builds.manifest import TensorInfo
from deuteron.builds.quality import OutputQuality, Quality
from deuteron.frontend import saved
from deuteron.frontend.cortex_m import lowering_check
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.quality.findings import findings
from deuteron.frontend.quality.measure import Measured, measure

_STORED = 4 << 20
"""Bytes that the samples that a build keeps may take, and the float model's outputs for them."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured, as the manifest keeps it; the samples for it; and what is wrong, as sentences."""

    quality: Quality
    samples: samples.Stored
    findings: tuple[str, ...]


def gather(
    floats: fx.GraphModule,
    quantised: fx.GraphModule,
    program: ExportedProgram,
    outputs: Sequence[TensorInfo],
    batches: Sequence[Inputs],
    wanted: Sequence[Sequence[Tensor]] | None = None,
) -> Evidence:
    """The quantised model beside the float one on these batches.

    Args:
        floats: the float model.
        quantised: what was made of it.
        program: what was made of that; says which inputs the application quantises.
        outputs: of the program.
        batches: the samples.
        wanted: the module's own outputs for each, which the program is held against; by default the float model's.
    """
    measured = measure(floats, quantised, batches)
    stored = samples.Stored(
        tuple(_arrays(lowering_check.given(program, quantised, batch)) for batch in batches),
        tuple(map(_arrays, wanted or measured.wanted)),
    ).within(_STORED)
    quality = Quality(
        len(batches), len(stored.inputs), outputs=_outputs(measured, outputs), layers=measured.layer_qualities()
    )
    return Evidence(quality, stored, findings(floats, quantised, measured))


def _outputs(measured: Measured, infos: Sequence[TensorInfo]) -> tuple[OutputQuality, ...]:
    """Those of the model, with the scales of outputs that the program leaves quantised."""
    listed: list[OutputQuality] = []
    for i, (found, info) in enumerate(zip(measured.output_qualities(), infos, strict=True)):
        affine: saved.Affine | None = measured.outputs[i].affine if i in measured.outputs else None
        if affine is not None and info.dtype in ("int8", "int16"):
            listed.append(replace(found, scale=affine.scale, zero_point=affine.zero_point))
        else:
            listed.append(found)
    return tuple(listed)


def _arrays(values: Sequence[Tensor]) -> samples.Sample:
    return tuple(value.detach().contiguous().numpy() for value in values)
