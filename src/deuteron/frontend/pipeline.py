"""Builds the recipe for ExecuTorch's export session, from a module to a program.

The steps of the NPU and those of the Cortex-M are defined once. A target's recipe has the steps of its processors.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Self

import torch
from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch, CpuOperators
from deuteron.builds.manifest import CpuOp
from deuteron.builds.options import Activations, BuildOptions, CalibrationMethod, WeightBits
from deuteron.errors import InternalError, OptionError
from deuteron.frontend import heterogeneous, mixed_precision, mutable_buffers, output_dtypes, ranges, upstream_caches
from deuteron.frontend.backends import select
from deuteron.frontend.backends.interface import NpuBackend
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.backends.reemit import program_config
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m import cpu_divisions, least_divisor, numerical_check, program_checks, softmax_scales
from deuteron.frontend.cortex_m import decompositions as cortex_m_decompositions
from deuteron.frontend.cortex_m.layout import give_strides
from deuteron.frontend.cpu import cpu_ops
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.export import check_exported, check_fixed_inputs, check_norms, check_repeatable
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.lowering_record import Recording
from deuteron.frontend.quantize import (
    batches,
    bias_scales,
    biases,
    boolean_indices,
    casts,
    complex_numbers,
    composites,
    computed_weights,
    decompositions,
    dilated_pools,
    doubles,
    early_slices,
    empties,
    equalise,
    fills,
    float_joins,
    huge_constants,
    indexed_writes,
    indexing,
    inplace,
    integers,
    long_sums,
    masks,
    norms,
    operator_aliases,
    orders,
    pools,
    promotion,
    recurrent_layers,
    resampling,
    rewrite_equivalence,
    scatters,
    signals,
    split_concatenations,
    synonyms,
    training,
    unpools,
    volumes,
    written_norms,
)


class Stage(Enum):
    """The stage of a run from a module to a program; errors depend on it."""

    EXPORT = auto()
    """PyTorch exports the model."""
    QUANTIZE = auto()
    """The exported model is prepared, calibrated or trained, and quantized."""
    LOWER = auto()
    """The quantized model becomes an edge program, and the backend compiles its partitions."""
    EMIT = auto()
    """The edge program is complete and the CPU operators are known; ExecuTorch plans memory and writes the program."""


def _ignore(_: str) -> None:
    pass


class _StrictRecipe(int):
    """A recipe's `strict` flag, which is true; ExecuTorch hashes the flags of recipes that a user combines.

    This recipe cannot be combined: its passes quantize for all processors of the target.
    """

    name: str

    def __new__(cls, name: str) -> Self:
        """Return true, with the name of the recipe."""
        alone = super().__new__(cls, True)
        alone.name = name
        return alone

    def __hash__(self) -> int:
        raise OptionError(
            f"the recipe `{self.name}` is combined with another, and is for all of a model: its processors share what "
            "is quantized",
            hint="use it by itself; `deuteron targets` lists those with an NPU and a CPU",
        )


@dataclass(slots=True, repr=False)
class Flow:
    """One run from a module to a program; `recipe` makes the recipe of ExecuTorch's session for it.

    Attributes:
        arch: the target.
        options: of the build.
        calibration: returns the calibration batches; without it, ranges come from the session's example inputs.
        sample: an input for trials and for the final comparison; random if it is not given.
        train: trains the model in place; None for quantization after training.
        on_step: called with the name of each step when it begins.
        npu_backend: the back end of the target's NPU.
        recording: the partitions and nodes of the lowering.
        rejected: nodes that the NPU's quantizer annotated and its partitioner rejected.
        variables: of the model, which are its last inputs and outputs; mutable buffers of the program.
        repeats: whether the caller repeats a run that ends with `heterogeneous.LeftOverError`.
        score: measures a model for `options.max_loss`: a larger number is better.
        flash_left: bytes that int8 weights leave of the flash budget of `WeightBits.AUTO`; below 0 if they exceed it.
        oversized: numbers of layers with four bits whose finished programs exceed the flash budget.
        packed: nodes of layers with weights of four bits, once the model has been quantized.
        further: more inputs on which the rewritten float model is compared with the exported one.
        stage: the current stage.
        on_cpu: the operators on the CPU, once the program is complete.
    """

    arch: Arch
    options: BuildOptions
    calibration: Callable[[], Iterable[Inputs]] | None = None
    sample: Inputs = ()
    train: Callable[[fx.GraphModule], None] | None = None
    on_step: Callable[[str], None] = _ignore
    npu_backend: NpuBackend = field(init=False)
    recording: Recording[Any] = field(default_factory=Recording[Any])
    rejected: heterogeneous.RejectedNodes = field(default_factory=heterogeneous.RejectedNodes)
    variables: tuple[Variable, ...] = ()
    repeats: bool = False
    score: Callable[[fx.GraphModule], float] | None = None
    flash_left: int | None = None
    oversized: frozenset[int] = frozenset()
    packed: tuple[str, ...] = ()
    further: Sequence[Inputs] = ()
    stage: Stage = Stage.EXPORT
    on_cpu: tuple[CpuOp, ...] = ()
    _floats: fx.GraphModule | None = None
    _stored: Mapping[int, mutable_buffers.Affine] = field(default_factory=dict[int, mutable_buffers.Affine])
    _has_begun: bool = False
    _output_dtypes: tuple[torch.dtype, ...] = ()
    _module: fx.GraphModule | None = None
    _original: tuple[rewrite_equivalence.Run, ...] = ()
    _state_nodes: mixed_precision.StateNodes | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.npu_backend = select.of(self.arch, self.options)

    @property
    def module(self) -> fx.GraphModule:
        """The quantized model, once there is one."""
        if self._module is None:
            raise InternalError("the quantized model was asked for before there was one")
        return self._module

    @property
    def float_model(self) -> fx.GraphModule:
        """The float model before quantization, once it has been prepared."""
        if self._floats is None:
            raise InternalError("the float model was asked for before it was prepared")
        return self._floats

    @property
    def state_ranges(self) -> Mapping[int, tuple[float, float]]:
        """The least and the largest value of each variable that the program stores quantized, by its number."""
        return {
            index: ((low - zero_point) * scale, (high - zero_point) * scale)
            for index, (scale, zero_point, low, high, *_) in self._stored.items()
        }

    @property
    def state_notes(self) -> tuple[str, ...]:
        """A text for each variable that keeps 8 bits although the options ask for 16."""
        return self._state_nodes.notes if self._state_nodes else ()

    @property
    def has_cortex_m(self) -> bool:
        """True if the target's CPU has int8 operators."""
        return self.arch.cpu.operators is CpuOperators.CORTEX_M

    def recipe(self, name: str = "deuteron") -> Any:
        """The recipe for ExecuTorch's `ExportSession`."""
        with upstream_caches.importing(), self.npu_backend.imported(), quiet():  # both others import ExecuTorch
            importlib.import_module("executorch.kernels.quantized")  # out variants of quantize and dequantize
            from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe

            quantization = QuantizationRecipe(
                quantizers=[rewrite_equivalence.checked(self._quantizer(), lambda: self._original)],
                is_qat=self.train is not None,
                train_fn=self.train,
                calibration_inputs_fn=None if self.calibration is None else tuple,  # `_calibrate` does it
                pre_prepare_passes=[self._begin],
                post_prepare_passes=[self._calibrate],
                post_convert_passes=[self._quantized],
            )
            lowering = LoweringRecipe(
                partitioners=[self._partitioner()],
                edge_transform_passes=[self._edge_passes],
                edge_manager_transform_passes=[self._io_passes, self._npu_passes, self._cpu_passes],
                edge_compile_config=self.npu_backend.edge_config(),
            )
            return ExportRecipe(
                name,
                quantization,
                lowering_recipe=lowering,
                executorch_backend_config=program_config(),
                strict=_StrictRecipe(name),  # pyright: ignore[reportArgumentType]
            )

    def close(self) -> None:
        """Remove the converter from Python's import system, where a run has put it."""
        self._stack.close()

    def _batches(self) -> Iterable[Inputs]:
        """The batches that ranges are measured from, from the first."""
        return [self.sample] if self.calibration is None else self.calibration()

    def _quantizer(self) -> Any:
        search = self._int16_search()
        if self.has_cortex_m:
            quantizer = heterogeneous.quantizer(
                self.arch,
                self.npu_backend,
                self.rejected,
                self.recording,
                lambda: self.sample,
                self.options.activations,
                search,
                runs_trials=not self.repeats or self.train is not None or search is not None,
            )
        else:
            quantizer = self.npu_backend.quantizer()
        return quantizer if self.train is None else trainable(quantizer)

    def _int16_search(self) -> mixed_precision.Search | mixed_precision.StateNodes | None:
        """Return the selection of nodes with int16 activations; None without any."""
        if self.options.min_sqnr is not None and self.options.has_mixed_activations:
            return mixed_precision.Search(self.options.min_sqnr, self._batches)
        is_int16 = self.options.state_dtype is Activations.INT16
        self._state_nodes = mixed_precision.StateNodes(self.variables) if is_int16 and self.variables else None
        return self._state_nodes

    def _partitioner(self) -> Any:
        if self.has_cortex_m:
            return heterogeneous.partitioner(self.arch, self.npu_backend, self._state, self.rejected, self.recording)
        return self.npu_backend.partitioner(self._state, self.recording.record_nodes)

    def _state(self) -> dict[str, Any]:
        return self.module.state_dict()

    def _begin(self, model: fx.GraphModule) -> fx.GraphModule:
        """The exported model, before it is annotated."""
        from deuteron.frontend.quantize import annotations  # here, because torchao is not quiet when it is loaded

        self.close()
        # A user may run a recipe again, for another model too and after a failed run.
        is_another = self._has_begun and not self.rejected.is_left_over
        self._has_begun, self.rejected.is_left_over = True, False
        self.stage = Stage.QUANTIZE
        check_fixed_inputs(model)
        if is_another:
            self.on_cpu, self.sample, self.further = (), (), ()
            self.rejected.clear()
            self.recording.clear()
        self._stack.enter_context(self.npu_backend.lowering(self.recording))
        if not self.sample:
            self.sample = _made_up(model)
            self.further = [tuple(-x if x.is_floating_point() else x for x in self.sample)]
        if self.train is not None:
            training.evaluate(model)
        check_norms(model)
        check_repeatable(model)
        keeps_float_layers = self.npu_backend.keeps_float_layers and not self.has_cortex_m
        others = rewrite_equivalence.from_batches(model, self._batches)
        self._original = rewrite_equivalence.original(model, [self.sample, *self.further, *others])
        boolean_indices.write(model)
        doubles.narrow(model, self.sample)
        without_rule = complex_numbers.write(model, weights=self.train is None)
        check_exported(model, takes_complex=not self.has_cortex_m, without_rule=without_rule)
        self._output_dtypes = output_dtypes.of(model)
        casts.remove_identity_casts(model)
        operator_aliases.write(model)
        promotion.write(model)
        inplace.write(model)
        mutable_buffers.remove_copies(model, len(self.variables))
        empties.write(model)
        integers.write(model)
        if self.has_cortex_m or self.npu_backend.decomposes_layers:
            indexed_writes.write(model)
        else:
            indexed_writes.write_sums(model)
        composites.write_outer(model)
        operator_aliases.write(model)
        if not keeps_float_layers:
            computed_weights.write(model)
        synonyms.write(model)
        early_slices.write(model)
        self._write_orders(model)
        pools.write(model)
        if not keeps_float_layers:
            unpools.write(model)
            volumes.write(model)
            dilated_pools.write(model)
        indexing.write(model)
        if self.has_cortex_m or self.npu_backend.decomposes_layers:
            scatters.write(model)
        else:
            scatters.write_missing(model)
        resampling.write(model, weights=self.train is None)
        casts.merge_bool_casts(model)
        if self.has_cortex_m:
            written_norms.write(model, self._batches)
            composites.write(model)
        else:
            composites.write_missing(model)
        operator_aliases.write(model)
        if self.train is None:  # zeros may be parameters that a training changes
            huge_constants.write(model)
        decompositions.fold(model, weights=self.train is None)
        masks.write(model, self._batches, has_operator=self.has_cortex_m)
        batches.write(model)
        norms.write(model)
        upstream.fold_batch_norms(model)
        if self.options.activations is Activations.INT8 and self.train is None:
            split_concatenations.split(model, self._batches())
        if self.options.equalise:
            equalise.equalise(model, self._batches())
        if self.options.corrects_biases:
            biases.add(model)
        if self.has_cortex_m or self.npu_backend.decomposes_layers:
            cortex_m_decompositions.write(
                model,
                is_indexed=self.has_cortex_m,
                has_slopes=self.npu_backend.has_npu,
                has_loops=self.has_cortex_m and self.options.activations is Activations.INT8,
                trains=self.train is not None,
            )
            recurrent_layers.measure(model, self._batches)
        else:
            decompositions.apply(model, cortex_m_decompositions.WITHOUT_KERNELS)
            signals.write(model)
        decompositions.write(model)
        if self.has_cortex_m:
            long_sums.write(model)
        is_int8, is_fixed = self.options.activations is Activations.INT8, not self.npu_backend.measures_softmax
        if self.has_cortex_m and is_int8 and is_fixed and self.train is None:
            softmax_scales.refine(model, self._batches())
        self.npu_backend.write(model)
        if self.has_cortex_m and self.npu_backend.has_npu and self.options.activations is Activations.INT8:
            cpu_divisions.leave_to_cpu(model, self._batches())
        if self.has_cortex_m and is_int8 and self.train is None and not self.options.remove_quant_io_ops:
            float_joins.leave(model, self._batches(), len(self.variables))
        if self.has_cortex_m:
            program_checks.check_indices(model)
        if not keeps_float_layers:
            program_checks.check_weights(model)
        synonyms.remove_identity_transposes(model)
        decompositions.make_parameters(model)
        annotations.copy_shared_biases(model)
        give_strides(model)
        return model

    def _write_orders(self, model: fx.GraphModule) -> None:
        """Rewrite numbers that stand for infinity, and sorts."""

        def samples() -> list[Inputs]:
            return [self.sample, *self.further, *self._batches()]

        fills.write(model, samples)
        if self.has_cortex_m and orders.search_long_rows(model):
            fills.write(model, samples)
        orders.write(model, has_topk=not self.has_cortex_m)

    def _calibrate(self, model: fx.GraphModule) -> fx.GraphModule:
        """The model with observers, which have seen the calibration batches."""
        # Here, because torchao is not quiet when it is loaded.
        from deuteron.frontend.quality.float_model import without_observers
        from deuteron.frontend.quantize import few_values, saturation
        from deuteron.frontend.quantize.calibration import calibrate, observe_integers, observe_whole
        from deuteron.frontend.quantize.variables import share_scales

        share_scales(model, len(self.variables))
        observe_integers(model)
        observe_whole(model)
        ranges.allow_small(model)
        ranges.choose(model, self.options.calibration_method)
        if self.calibration is not None:
            self.on_step("calibrate")
            count = calibrate(model, self.calibration())
            if self.options.calibration_method is CalibrationMethod.HISTOGRAM:
                few_values.widen(model, count)
            if self.options.activations is Activations.INT8 and self.train is None:
                saturation.narrow(model)
            bias_scales.widen(model)
        self._floats = without_observers(model)  # trained with the other, whose weights it has
        if self.options.has_packed_weights:
            self.packed = self._pack_weights(model)
        if self.options.corrects_biases:
            biases.correct(model, self._floats, self._batches())
        return model

    def _pack_weights(self, model: fx.GraphModule) -> tuple[str, ...]:
        """Give layers of a calibrated model weights of four bits; return their nodes."""
        from deuteron.frontend.quantize import weight_bits  # here, because torchao is not quiet when it is loaded

        layers = weight_bits.layers_of(model, lambda node: heterogeneous.mark_of(node) is not None)
        left = self.flash_left
        limits = weight_bits.Limits(
            self.options.weights_bits is WeightBits.FOUR,
            self.options.min_sqnr,
            self.score,
            self.options.max_loss,
            None if left is None else left + sum(layer.bytes[0] for layer in layers),
            self.oversized,
        )
        chooser = weight_bits.Chooser(model, self.float_model, layers, self._batches())
        return tuple(layer.name for layer in chooser.run(limits, trains=self.train is not None))

    def _quantized(self, model: fx.GraphModule) -> fx.GraphModule:
        """The quantized model."""
        self.on_step("quantize")
        if self.has_cortex_m:
            heterogeneous.quantize_once(model)
            least_divisor.keep_from_zero(model)
            numerical_check.mark(model)
        else:
            heterogeneous.mark(model, {node.name for node in model.graph.nodes})
        self._module, self.stage = model, Stage.LOWER
        return model

    def _edge_passes(self, _: str, program: ExportedProgram) -> Any:
        """The NPU backend's passes over the edge program; none after delegation, when a session asks again."""
        if program.dialect == "EDGE":
            return []
        self.on_step("partition and convert")
        return self.npu_backend.edge_passes(program, self._state())

    def _io_passes(self, edge: Any) -> Any:
        count = len(self.variables)
        self._stored = mutable_buffers.store_quantized(edge.exported_program(), count)
        return upstream.io_passes(edge, count) if self.options.remove_quant_io_ops else []

    def _npu_passes(self, _: Any) -> Any:
        return [] if self.has_cortex_m else self.npu_backend.last_passes()

    def _cpu_passes(self, edge: Any) -> Any:
        """Lower the program to the Cortex-M's operators, which completes it; returns no passes for the session."""
        if self.has_cortex_m:
            cortex_m.lower(edge, self.arch.cpu.name)
            numerical_check.check(edge.exported_program(), self.module, self.sample)
        output_dtypes.restore(edge.exported_program(), self._output_dtypes)
        mutable_buffers.write_into(edge, self.variables, self._stored)
        self.on_cpu = cpu_ops(edge.exported_program().graph, self.recording.placed())
        self.stage = Stage.EMIT
        self.on_step("write program")
        self.close()
        return []


def trainable(quantizer: Any) -> Any:
    """Wrap a quantizer for training: same annotations with fake quantization, and any batch size."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    from deuteron.frontend.quantize import annotations

    class Trainable(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            model = quantizer.transform_for_annotation(model)
            training.free_batch(model)
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            annotations.fake_quantize(quantizer.annotate(model))
            return model

        def validate(self, model: fx.GraphModule) -> None:
            quantizer.validate(model)

    return Trainable()


def _made_up(model: fx.GraphModule) -> Inputs:
    """Random inputs of the model's shapes and dtypes."""
    values: list[torch.Tensor] = [node.meta["val"] for node in model.graph.nodes if node.op == "placeholder"]
    return tuple(
        torch.rand(tuple(v.shape)) if v.is_floating_point() else torch.zeros(tuple(v.shape), dtype=v.dtype)
        for v in values
    )
