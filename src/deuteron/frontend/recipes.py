"""ExecuTorch export recipes for Deuteron's targets; importing this module registers them.

`ExportRecipe.get_recipe(Recipe.COMBINED_PTQ)` makes a recipe for an `ExportSession`. `deuteron build` uses the same
recipes and ExecuTorch's own stages.
"""

from collections.abc import Sequence
from typing import Any, cast

from executorch.export import BackendRecipeProvider, ExportRecipe, RecipeType, recipe_registry

from deuteron.arch import targets
from deuteron.arch.targets import Arch, EthosU
from deuteron.builds.options import BuildOptions, Partitioning, WeightBits
from deuteron.errors import OptionError
from deuteron.frontend.backends.ethosu import vela
from deuteron.frontend.pipeline import Flow

BACKEND = "deuteron"
ARGUMENTS = ("target", "options", "calibration_inputs_fn", "train_fn")


class Recipe(RecipeType):
    """The processors that a model is quantized for in int8, after training (PTQ) or with training (QAT).

    `NEUTRON`: the Neutron NPU and ExecuTorch's portable operators on the CPU. `CORTEX_M`: the CPU alone. `COMBINED`:
    the Neutron NPU, and int8 operators on the CPU for the rest. `ETHOSU`: an Arm Ethos-U and portable operators.
    """

    NEUTRON_PTQ = "neutron_int8_ptq"
    NEUTRON_QAT = "neutron_int8_qat"
    CORTEX_M_PTQ = "cortex_m_int8_ptq"
    CORTEX_M_QAT = "cortex_m_int8_qat"
    COMBINED_PTQ = "neutron_cortex_m_int8_ptq"
    COMBINED_QAT = "neutron_cortex_m_int8_qat"
    ETHOSU_PTQ = "ethosu_int8_ptq"
    ETHOSU_QAT = "ethosu_int8_qat"

    @classmethod
    def get_backend_name(cls) -> str:
        """The name of all these recipes in ExecuTorch's registry."""
        return BACKEND

    @property
    def trains(self) -> bool:
        """True for quantization-aware training."""
        return self.name.endswith("_QAT")

    @property
    def target(self) -> str:
        """The default target."""
        targets_of = {
            "NEUTRON": "imxrt700", "CORTEX_M": "cortex-m55", "COMBINED": "imxrt700cm", "ETHOSU": "ethos-u55-128"
        }  # fmt: skip
        return targets_of[self.name[:-4]]

    def fits(self, arch: Arch) -> bool:
        """True for a target with the processors of this recipe."""
        like = targets.load(self.target)
        return (type(arch.npu), arch.cpu.operators) == (type(like.npu), like.cpu.operators)


class Provider(BackendRecipeProvider):
    """Provides the recipes to ExecuTorch's registry."""

    @property
    def backend_name(self) -> str:
        """The name of all these recipes in ExecuTorch's registry."""
        return BACKEND

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """All recipes."""
        return list(Recipe)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Create a recipe; None for a recipe of another backend.

        Args:
            recipe_type: a `Recipe`.
            kwargs: `target`, a name that `deuteron targets` lists; `options`, a `BuildOptions`;
                `calibration_inputs_fn`, which returns batches like the example inputs; `train_fn`, which trains a
                model in place.

        Raises:
            OptionError: an argument does not fit the recipe.
        """
        if not isinstance(recipe_type, Recipe):
            return None
        for name in kwargs:
            if name not in ARGUMENTS:
                raise OptionError(
                    f"the recipe `{recipe_type.value}` has no argument `{name}`",
                    hint=f"it takes {', '.join(f'`{known}`' for known in ARGUMENTS)}",
                )
        arch = targets.load(cast(str, kwargs.get("target", recipe_type.target)))
        train = kwargs.get("train_fn")
        _check(recipe_type, arch, trained=train is not None)
        options = cast(BuildOptions, kwargs.get("options", BuildOptions()))
        options.check(arch)
        if isinstance(arch.npu, EthosU):
            vela.check_memory(arch.npu, options.memory)
        _check_options(recipe_type, options)
        if options.measuring and kwargs.get("calibration_inputs_fn") is None:
            raise OptionError(
                f"the option `{options.measuring}` measures on calibration batches, and the recipe "
                f"`{recipe_type.value}` has none",
                hint="give `calibration_inputs_fn`",
            )
        flow = Flow(arch, options, kwargs.get("calibration_inputs_fn"), train=train)
        return cast(ExportRecipe, flow.recipe(recipe_type.value))


def _check_options(recipe: Recipe, options: BuildOptions) -> None:
    """Raise OptionError for an option that an export session does not support."""
    for name in ("dump_kernel_selection_code", "intermediates", "force"):
        if getattr(options, name):
            raise OptionError(
                f"the option `{name}` is about a directory of files, and the recipe `{recipe.value}` makes none",
                hint="leave it out, or use `deuteron.build`, which writes one",
            )
    if options.partition is Partitioning.COST:
        raise OptionError(
            f"the option `partition` `{options.partition.value}` compares several programs of a model, and the recipe "
            f"`{recipe.value}` makes one",
            hint="leave it out, or use `deuteron.build`",
        )
    unchecked = {
        "max_loss": options.max_loss is not None,
        "min_sqnr": options.min_sqnr is not None and recipe.trains,
        "memory.flash_budget": options.weights_bits is WeightBits.AUTO and options.memory.flash_budget is not None,
    }
    for name in (name for name, is_asked in unchecked.items() if is_asked):
        raise OptionError(
            f"the option `{name}` is checked on the finished program, and the recipe `{recipe.value}` does not see it",
            hint="leave it out, or use `deuteron.build`",
        )
    if options.stream is not None:
        raise OptionError(
            f"the option `stream` changes the model's inputs, and the recipe `{recipe.value}` takes them as they are",
            hint="leave it out, or use `deuteron.build`",
        )
    if options.use_qat and not recipe.trains:
        raise OptionError(
            f"the option `use_qat` trains, and the recipe `{recipe.value}` does not",
            hint=f"leave it out, or take `Recipe.{recipe.name[:-3]}QAT`",
        )


def _check(recipe: Recipe, arch: Arch, *, trained: bool) -> None:
    if not recipe.fits(arch):
        *others, last = (f"`{name}`" for name in targets.names() if recipe.fits(targets.load(name)))
        fitting = f"{', '.join(others)} or {last}" if others else last
        raise OptionError(
            f"the recipe `{recipe.value}` is not for the target `{arch.name}`",
            hint=f"choose {fitting}",
        )
    other = recipe.name[:-3] + ("PTQ" if recipe.trains else "QAT")
    if recipe.trains and not trained:
        raise OptionError(
            f"the recipe `{recipe.value}` needs a `train_fn`", hint=f"give one to it, or take `Recipe.{other}`"
        )
    if trained and not recipe.trains:
        raise OptionError(
            f"the recipe `{recipe.value}` trains nothing, but a `train_fn` is given",
            hint=f"leave it out, or take `Recipe.{other}`",
        )


recipe_registry.register_backend_recipe_provider(Provider())
