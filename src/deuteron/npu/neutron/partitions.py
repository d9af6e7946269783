"""Allocates one SRAM to all partitions of a program, and checks whether they fit together.

Linked weights are always in SRAM, as is the memory that ExecuTorch plans, with the inputs and outputs of partitions.
Scratch and prefetch areas are working memory, which partitions use one at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from deuteron.arch import targets
from deuteron.arch.memory import UNLIMITED, DepthFirst, FetchPolicy, IoInScratch, MemoryOptions
from deuteron.arch.targets import Arch
from deuteron.errors import CapacityError, DeuteronError, OptionError
from deuteron.npu.neutron.budget import budget
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, Lowered, lower_model, planned
from deuteron.planner import Budget, cycles
from deuteron.planner.channel_planes import by_planes
from deuteron.tflite.decode import decode

TENSORS = "inputs, outputs and CPU tensors"
OTHERS = "weights of other partitions"


@dataclass(frozen=True, slots=True)
class Usage:
    """SRAM of a partition: permanent weights, and working memory while it runs."""

    linked: int
    scratch: int
    area: int

    @property
    def working(self) -> int:
        """Bytes that are free after a run."""
        return self.scratch + self.area


def total(usages: Sequence[Usage], tensors: int) -> int:
    """Return the bytes of SRAM of partitions and of `tensors` bytes that ExecuTorch plans."""
    return tensors + sum(usage.linked for usage in usages) + max((usage.working for usage in usages), default=0)


def fits(usages: Sequence[Usage], tensors: int, memory: MemoryOptions, arch: Arch) -> bool:
    """Return True if partitions that were converted separately, each without a limit of SRAM, fit together."""
    if len(usages) > 1 and any(usage.area for usage in usages):
        return False  # resident weights would be overwritten by other partitions
    linked = sum(usage.linked for usage in usages)
    weighs = memory.weights_budget is not None and memory.fetch_constants_to_sram is FetchPolicy.AUTO
    return total(usages, tensors) <= memory.sram(arch) and not (weighs and linked > (memory.weights_budget or 0))


Tensors = Callable[[DepthFirst], Iterable[int]]
"""Returns candidates for the bytes of SRAM of inputs, outputs and CPU tensors, in the order of trial."""

Placed = Callable[[int, CapacityError], DeuteronError]
"""Adds the place to the error of a partition, given its number."""


def convert_together(
    tflites: Sequence[bytes],
    target: str,
    options: ConvertOptions,
    tensors: Tensors,
    placed: Placed,
    *,
    is_alone: bool = False,
) -> tuple[Conversion, ...]:
    """Convert the partitions of a program so that together they fit into the SRAM budget.

    Args:
        tflites: their files.
        target: name of a target with a Neutron.
        options: options of the compiler.
        tensors: candidates for the bytes of inputs, outputs and CPU tensors.
        placed: adds the place to the error of a partition.
        is_alone: whether the program is one partition, without tensors other than its inputs and outputs.

    Raises:
        CapacityError: they do not fit; it names the partition that needs most.
    """
    return together(tflites, target, options).within_budget(options.memory, tensors, placed, is_alone=is_alone)


def together(tflites: Sequence[bytes], target: str, options: ConvertOptions) -> "Together":
    """Lower the partitions of a program up to planning; memory options are ignored."""
    arch = targets.load(target)
    return Together(tuple(lower_model(decode(tflite), arch, options) for tflite in tflites), arch, options)


@dataclass(frozen=True, slots=True)
class Together:
    """The lowered partitions of a program, which can be planned for several memories."""

    models: tuple[Lowered, ...]
    arch: Arch
    options: ConvertOptions

    def within_budget(
        self, memory: MemoryOptions, tensors: Tensors, placed: Placed, *, is_alone: bool = False
    ) -> tuple[Conversion, ...]:
        """Return the conversions for a memory budget; arguments and errors are those of `convert_together`.

        Raises:
            OptionError: inputs and outputs cannot be in scratch, as the options require.
        """
        may_lie_there = is_alone and self._ends_have_places
        if memory.io_in_scratch is IoInScratch.ALWAYS:
            if not may_lie_there:
                raise OptionError(
                    "inputs and outputs cannot lie in scratch, as `--io-in-scratch always` asks: they can where the "
                    "program is one partition alone, and none of them is both",
                    hint="leave it to `--io-in-scratch auto`, or quantizing to the application with "
                    "`--remove-quant-io-ops`",
                )
            return self._with_ends_placed.within(memory, 0, placed)
        if memory.io_in_scratch is IoInScratch.NEVER or not may_lie_there:
            return self._outside(memory, tensors, placed)
        try:
            outside = self._outside(memory, tensors, placed)
        except CapacityError as with_tensors:
            try:
                return self._with_ends_placed.within(memory, 0, placed)
            except CapacityError as within:
                raise min((with_tensors, within), key=lambda error: error.needed) from None
        if outside[0].plan.prefetch is None and not outside[0].plan.planned_cycles:
            return outside
        try:
            inside = self._with_ends_placed.within(memory, 0, placed)
        except CapacityError:
            return outside
        engine = budget(self.arch, memory)
        return min(outside, inside, key=lambda each: cycles(each[0].program, each[0].plan, engine))

    @property
    def _ends_have_places(self) -> bool:
        """True if all inputs and outputs can be in scratch."""
        programs = [model.program.with_ends_placed for model in self.models]
        return all(program.placed == frozenset((*program.inputs, *program.outputs)) for program in programs)

    @property
    def _with_ends_placed(self) -> "Together":
        """The same with inputs and outputs in scratch."""
        models = (replace(model, program=by_planes(model.program.with_ends_placed)) for model in self.models)
        return replace(self, models=tuple(models))

    def _outside(self, memory: MemoryOptions, tensors: Tensors, placed: Placed) -> tuple[Conversion, ...]:
        """Return the conversions with inputs and outputs outside scratch; errors as in `within_budget`."""
        errors: list[CapacityError] = []
        for nbytes in tensors(memory.depth_first):
            try:
                return self.within(memory, nbytes, placed)
            except CapacityError as error:
                errors.append(error)
        raise errors[-1]

    def within(self, memory: MemoryOptions, tensors: int, placed: Placed) -> tuple[Conversion, ...]:
        """Return the conversions with `tensors` bytes in use otherwise; the rest is as in `within_budget`."""
        whole = budget(self.arch, memory)
        tensor_uses = ((tensors, TENSORS),) if tensors else ()
        if memory.fetch_constants_to_sram is not FetchPolicy.ALWAYS:
            alone = replace(whole, sram=UNLIMITED, weights=None, policy=FetchPolicy.NEVER)
            linked = self._converted([alone] * len(self.models), placed)
            usages = [usage(conversion) for conversion in linked]
            if fits(usages, tensors, memory, self.arch):
                return linked
            if memory.fetch_constants_to_sram is FetchPolicy.NEVER:
                return self._converted(list(_budgets_with_others(whole, usages, tensor_uses)), placed)
        fetched = replace(whole, sram=whole.sram - tensors, policy=FetchPolicy.ALWAYS, other_uses=tensor_uses)
        return self._converted([replace(fetched, keep_resident=len(self.models) == 1)] * len(self.models), placed)

    def _converted(self, within: Sequence[Budget], placed: Placed) -> tuple[Conversion, ...]:
        """Convert each in its budget; CapacityError of the one that needs most if some do not fit."""
        conversions: list[Conversion] = []
        errors: list[tuple[int, CapacityError]] = []
        for number, model in enumerate(self.models):
            try:
                conversions.append(planned(model, self.options, within[number]))
            except CapacityError as error:
                errors.append((number, error))
        if errors:
            number, error = max(errors, key=lambda item: item[1].needed)
            where = f"npu {number}, {error.where}" if len(self.models) > 1 else error.where
            raise placed(number, error.relocate(where)) from error
        return tuple(conversions)


def _budgets_with_others(
    whole: Budget, usages: Sequence[Usage], tensor_uses: tuple[tuple[int, str], ...]
) -> Iterator[Budget]:
    """Return the budget of each partition next to the weights of the others."""
    weights = sum(usage.linked for usage in usages)
    for usage in usages:
        others = weights - usage.linked
        more = (*tensor_uses, (others, OTHERS)) if others else tensor_uses
        yield replace(whole, sram=whole.sram - sum(nbytes for nbytes, _ in more), other_uses=more)


def usage(conversion: Conversion) -> Usage:
    """Return the SRAM usage of a partition."""
    plan = conversion.plan
    return Usage(0 if plan.transfers else plan.constant_bytes, plan.scratch_bytes, plan.prefetch_bytes)
