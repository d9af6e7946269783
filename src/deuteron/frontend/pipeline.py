"""The way from a module to a program: a recipe for ExecuTorch's export session, whose parts hand on what they find.

Those of the NPU and those of the Cortex-M are made once. A target that has one has its parts; one that has both has
both.
"""

import importlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self

import torch
from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch, CpuOperators, Neutron
from deuteron.builds.manifest import CpuOp
from deuteron.builds.options import BuildOptions
from deuteron.errors import InternalError, OptionError
from deuteron.frontend import heterogeneous, mixed_precision, npu_backends, output_dtypes, ranges, upstream_caches
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m import decompositions as cortex_m_forms
from deuteron.frontend.cortex_m import lowering_check, program_checks
from deuteron.frontend.cortex_m.layout import give_strides
from deuteron.frontend.cpu import cpu_ops
from deuteron.frontend.export import check_exported, check_norms, check_repeatable
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.lowering_record import Recording
from deuteron.frontend.neutron import upstream
from deuteron.frontend.npu_backend import Side
from deuteron.frontend.quantise import (
    batches,
    biases,
    casts,
    composites,
    decompositions,
    equalise,
    indexing,
    inplace,
    masks,
    norms,
    promotion,
    rewrite_equivalence,
    signals,
    synonyms,
    training,
)


class Stage(Enum):
    """What a run from a module to a program is doing, or was when it failed."""

    EXPORT = auto()
    """PyTorch exports the model."""
    QUANTISE = auto()
    """The exported model is prepared, measured or trained, and quantised."""
    LOWER = auto()
    """The quantised model becomes an edge program, whose partitions are converted."""
    EMIT = auto()
    """The edge program is complete, and what stays on the CPU is known; ExecuTorch plans memory and writes."""


def _nobody(_: str) -> None:
    pass


class _Alone(int):
    """What a recipe has for `strict`, which is true: ExecuTorch asks recipes that it combines whether theirs agree.

    Ours goes with no other: its passes quantise for all processors of the target, and lower as they have quantised.
    """

    name: str

    def __new__(cls, name: str) -> Self:
        """True, of the recipe of this name."""
        alone = super().__new__(cls, True)
        alone.name = name
        return alone

    def __hash__(self) -> int:
        raise OptionError(
            f"the recipe `{self.name}` is combined with another, and is for all of a model: its processors share what "
            "is quantised",
            hint="use it by itself; `deuteron targets` lists those with an NPU and a CPU",
        )


@dataclass(slots=True)
class Flow:
    """One run from a module to a program; `recipe` is what ExecuTorch's session is given for it.

    Attributes:
        arch: the target.
        options: of the build.
        calibration: gives the batches from which ranges are measured; the session's example inputs without it.
        sample: an input for trials and the comparison at the end; made up where it is not given.
        train: trains the model in place; without it the model is quantised as it is.
        told: is told when a step begins.
        side: the NPU's.
        recording: what went through its backend.
        refused: what the NPU's quantiser would have and its partitioner left.
        repeats: whether a run that ends with `combined.LeftOverError` is begun again.
        stage: what the run is doing.
        on_cpu: what stays on the CPU, once the program is complete.
    """

    arch: Arch
    options: BuildOptions
    calibration: Callable[[], Iterable[Inputs]] | None = None
    sample: Inputs = ()
    train: Callable[[fx.GraphModule], None] | None = None
    told: Callable[[str], None] = _nobody
    side: Side = field(init=False)
    recording: Recording[Any] = field(default_factory=Recording[Any])
    refused: heterogeneous.Refused = field(default_factory=heterogeneous.Refused)
    repeats: bool = False
    stage: Stage = Stage.EXPORT
    on_cpu: tuple[CpuOp, ...] = ()
    _floats: fx.GraphModule | None = None
    _has_begun: bool = False
    _output_dtypes: tuple[torch.dtype, ...] = ()
    _module: fx.GraphModule | None = None
    _original: rewrite_equivalence.Original = field(default_factory=rewrite_equivalence.Original)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.side = npu_backends.of(self.arch, self.options)

    @property
    def module(self) -> fx.GraphModule:
        """The quantised model, once there is one."""
        if self._module is None:
            raise InternalError("the quantised model was asked for before there was one")
        return self._module

    @property
    def float_model(self) -> fx.GraphModule:
        """The float model that was quantised, once it has been."""
        if self._floats is None:
            raise InternalError("the float model was asked for before it was prepared")
        return self._floats

    @property
    def _has_cortex_m(self) -> bool:
        return self.arch.cpu.operators is CpuOperators.CORTEX_M

    def recipe(self, name: str = "deuteron") -> Any:
        """The recipe for ExecuTorch's `ExportSession`."""
        with upstream_caches.importing(), self.side.imported(), quiet():  # both others import ExecuTorch
            importlib.import_module("executorch.kernels.quantized")  # out variants of quantise and dequantise
            from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe

            quantisation = QuantizationRecipe(
                quantizers=[rewrite_equivalence.checked(self._quantizer(), lambda: self._original)],
                is_qat=self.train is not None,
                train_fn=self.train,
                calibration_inputs_fn=None if self.calibration is None else tuple,  # `_calibrate` does it
                pre_prepare_passes=[self._begin],
                post_prepare_passes=[self._calibrate],
                post_convert_passes=[self._quantised],
            )
            lowering = LoweringRecipe(
                partitioners=[self._partitioner()],
                edge_transform_passes=[self._edge_passes],
                edge_manager_transform_passes=[self._io_passes, self._npu_passes, self._cpu_passes],
                edge_compile_config=self.side.edge_config(),
            )
            config = upstream.program_config()
            return ExportRecipe(
                name,
                quantisation,
                lowering_recipe=lowering,
                executorch_backend_config=config,
                strict=_Alone(name),  # pyright: ignore[reportArgumentType]
            )

    def close(self) -> None:
        """Take the converter out of Python's import system, where a run has put it."""
        self._stack.close()

    def _batches(self) -> Iterable[Inputs]:
        """What ranges are measured from, once more."""
        return [self.sample] if self.calibration is None else self.calibration()

    def _quantizer(self) -> Any:
        least = self.options.min_sqnr
        if self._has_cortex_m:
            quantizer = heterogeneous.quantizer(
                self.arch,
                self.side,
                self.refused,
                self.recording,
                lambda: self.sample,
                self.options.activations,
                None if least is None else mixed_precision.Search(least, self._batches),
                tries=not self.repeats or self.train is not None or least is not None,
            )
        else:
            quantizer = self.side.quantizer()
        return quantizer if self.train is None else trainable(quantizer)

    def _partitioner(self) -> Any:
        if self._has_cortex_m:
            return heterogeneous.partitioner(self.arch, self.side, self._state, self.refused, self.recording)
        return self.side.partitioner(self._state, self.recording.tell)

    def _state(self) -> dict[str, Any]:
        return self.module.state_dict()

    def _begin(self, model: fx.GraphModule) -> fx.GraphModule:
        """The exported model, before it is annotated."""
        from deuteron.frontend.quantise import annotations  # here, because torchao is not quiet when it is loaded

        self.close()
        # A recipe may be used again, for another model perhaps, and whatever became of its last run.
        is_another = self._has_begun and not self.refused.is_left_over
        self._has_begun, self.refused.is_left_over = True, False
        self.stage = Stage.QUANTISE
        check_exported(model, takes_complex=not self._has_cortex_m)
        self._output_dtypes = output_dtypes.of(model)
        if is_another:
            self.on_cpu, self.sample = (), ()
            self.refused.clear()
            self.recording.clear()
        self._stack.enter_context(self.side.lowering(self.recording))
        self.sample = self.sample or _made_up(model)
        if self.train is not None:
            training.evaluate(model)
        check_norms(model)
        check_repeatable(model)
        self._original = rewrite_equivalence.original(model, self.sample)
        casts.settle(model)
        promotion.write(model)
        inplace.write(model)
        synonyms.write(model)
        indexing.write(model)
        casts.join(model)
        if self._has_cortex_m:
            composites.write(model)
        else:
            composites.write_norms(model)
        decompositions.fold(model, weights=self.train is None)
        masks.write(model, self._batches, has_operator=self._has_cortex_m)
        batches.write(model)
        norms.write(model)
        upstream.fold_batch_norms(model)
        if self.options.equalise:
            equalise.equalise(model, self._batches())
        if self.options.correct_biases:
            biases.add(model)
        if self._has_cortex_m or isinstance(self.arch.npu, Neutron):  # signals and attention on either
            cortex_m_forms.write(model, is_indexed=self._has_cortex_m, has_slopes=self.arch.npu is not None)
        else:
            signals.write(model)
        decompositions.write(model)
        self.side.write(model)
        if self._has_cortex_m:
            program_checks.check_indices(model)
        if self._has_cortex_m or not isinstance(self.arch.npu, Neutron):
            program_checks.check_weights(model)
        annotations.part_biases(model)
        give_strides(model)
        return model

    def _calibrate(self, model: fx.GraphModule) -> fx.GraphModule:
        """The model with observers, which have seen the calibration batches."""
        # Here, because torchao is not quiet when it is loaded.
        from deuteron.frontend.quality.float_model import without_observers
        from deuteron.frontend.quantise.calibration import calibrate, observe_integers, observe_whole

        observe_integers(model)
        observe_whole(model)
        ranges.choose(model, self.options.calibration_method)
        if self.calibration is not None:
            self.told("calibrate")
            calibrate(model, self.calibration())
        self._floats = without_observers(model)  # trained with the other, whose weights it has
        if self.options.correct_biases:
            biases.correct(model, self._floats, self._batches())
        return model

    def _quantised(self, model: fx.GraphModule) -> fx.GraphModule:
        """The quantised model."""
        self.told("quantise")
        if self._has_cortex_m:
            heterogeneous.quantise_once(model)
            lowering_check.mark(model)
        self._module, self.stage = model, Stage.LOWER
        return model

    def _edge_passes(self, _: str, program: ExportedProgram) -> Any:
        """Passes of the NPU's backend over the edge program; none once it is delegated, when a session asks again."""
        if program.dialect == "EDGE":
            return []
        self.told("partition and convert")
        return self.side.edge_passes(program, self._state()) if self.arch.npu else []

    def _io_passes(self, edge: Any) -> Any:
        return upstream.io_passes(edge) if self.options.remove_quant_io_ops else []

    def _npu_passes(self, _: Any) -> Any:
        return [] if self._has_cortex_m else self.side.last_passes()

    def _cpu_passes(self, edge: Any) -> Any:
        """No passes; puts the Cortex-M's operators into the program itself, which is then complete."""
        if self._has_cortex_m:
            cortex_m.lower(edge, self.arch.cpu.name)
            lowering_check.check(edge.exported_program(), self.module, self.sample)
        output_dtypes.restore(edge.exported_program(), self._output_dtypes)
        self.on_cpu = cpu_ops(edge.exported_program().graph, self.recording.placed())
        self.stage = Stage.EMIT
        self.told("write program")
        self.close()
        return []


def trainable(quantizer: Any) -> Any:
    """A quantiser that annotates like another, but for training, on any number of samples at once."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    from deuteron.frontend.quantise import annotations

    class Trainable(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            model = quantizer.transform_for_annotation(model)
            training.free_batch(model)
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            annotations.fake_quantise(quantizer.annotate(model))
            return model

        def validate(self, model: fx.GraphModule) -> None:
            quantizer.validate(model)

    return Trainable()


def _made_up(model: fx.GraphModule) -> Inputs:
    """An input of the right form."""
    values: list[torch.Tensor] = [node.meta["val"] for node in model.graph.nodes if node.op == "placeholder"]
    return tuple(
        torch.rand(tuple(v.shape)) if v.is_floating_point() else torch.zeros(tuple(v.shape), dtype=v.dtype)
        for v in values
    )
