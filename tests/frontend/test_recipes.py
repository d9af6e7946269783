"""ExecuTorch's recipes for our targets: the guide's program, and what goes wrong."""

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import deuteron
from deuteron.arch.memory import MemoryOptions
from deuteron.builds.options import Activations, BuildOptions, Partitioning, WeightBits
from deuteron.errors import OptionError
from deuteron.frontend.recipes import Recipe
from deuteron.runtime.host import HostRunner

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "export-recipes.md"


def recipe(kind: Recipe, **arguments: object) -> Any:
    return importlib.import_module("executorch.export").ExportRecipe.get_recipe(kind, **arguments)


@pytest.mark.slow
@pytest.mark.full
def test_the_guides_program_runs_as_written(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    outputs: list[Any] = []
    for name in ("ptq.pte", "qat.pte"):
        data = (tmp_path / name).read_bytes()
        assert b"NeutronBackend" in data
        assert b"cortex_m::quantize_per_tensor" in data
        outputs += HostRunner(tmp_path / name).run([np.ones((1, 1, 8, 8), np.float32)])
    assert [y.shape for y in outputs] == [(1, 10), (1, 10)]
    assert not np.array_equal(*outputs)


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("kind", [Recipe.COMBINED_PTQ, Recipe.ETHOSU_PTQ, Recipe.NEUTRON_PTQ, Recipe.CORTEX_M_PTQ])
def test_a_recipe_gives_the_program_of_a_build(kind: Recipe) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3)).eval()
    batches = [(torch.randn(1, 2, 6, 6),) for _ in range(4)]
    built = deuteron.build(module, batches[0], target=kind.target, calibration=batches)
    session = importlib.import_module("executorch.export").ExportSession(
        module, batches[:1], recipe(kind, calibration_inputs_fn=lambda: batches)
    )
    session.export()
    assert bytes(session.get_pte_buffer()) == built.pte


@pytest.mark.slow
def test_a_recipe_serves_another_model_after_one_that_failed() -> None:
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU()).eval()
    export = importlib.import_module("executorch.export")
    shared = recipe(Recipe.NEUTRON_PTQ, calibration_inputs_fn=lambda: [(torch.randn(1, 2, 6, 6),)])
    with pytest.raises(RuntimeError):  # its calibration batches have two channels
        export.ExportSession(nn.Conv2d(3, 4, 3).eval(), [(torch.randn(1, 3, 8, 8),)], shared).export()
    session = export.ExportSession(module, [(torch.randn(1, 2, 6, 6),)], shared)
    session.export()
    assert b"NeutronBackend" in bytes(session.get_pte_buffer())


def refusal(kind: Recipe, **arguments: object) -> str:
    with pytest.raises(OptionError) as caught:
        recipe(kind, **arguments)
    return str(caught.value)


def test_a_target_without_the_recipes_processors_is_refused() -> None:
    assert refusal(Recipe.CORTEX_M_PTQ, target="imxrt700") == (
        "the recipe `cortex_m_int8_ptq` is not for the target `imxrt700`\n\nhint: choose `cortex-m0plus`, "
        "`cortex-m3`, `cortex-m33`, `cortex-m4`, `cortex-m55`, `cortex-m7` or `cortex-m85`"
    )


def test_training_goes_with_the_recipes_that_train() -> None:
    assert refusal(Recipe.NEUTRON_QAT) == (
        "the recipe `neutron_int8_qat` needs a `train_fn`\n\nhint: give one to it, or take `Recipe.NEUTRON_PTQ`"
    )
    assert refusal(Recipe.COMBINED_PTQ, train_fn=print) == (
        "the recipe `neutron_cortex_m_int8_ptq` trains nothing, but a `train_fn` is given\n\n"
        "hint: leave it out, or take `Recipe.COMBINED_QAT`"
    )


def test_an_unknown_argument_is_refused() -> None:
    assert refusal(Recipe.NEUTRON_PTQ, calibration=[]) == (
        "the recipe `neutron_int8_ptq` has no argument `calibration`\n\n"
        "hint: it takes `target`, `options`, `calibration_inputs_fn`, `train_fn`"
    )


@pytest.mark.parametrize("option", ["dump_kernel_selection_code", "intermediates", "force"])
def test_an_option_that_writes_files_is_refused(option: str) -> None:
    assert refusal(Recipe.COMBINED_PTQ, options=BuildOptions(**{option: True})) == (
        f"the option `{option}` is about a directory of files, and the recipe `neutron_cortex_m_int8_ptq` makes none"
        "\n\nhint: leave it out, or use `deuteron.build`, which writes one"
    )


def test_options_that_a_recipe_cannot_keep_are_refused() -> None:
    assert refusal(Recipe.COMBINED_PTQ, options=BuildOptions(partition=Partitioning.COST)) == (
        "the option `partition` `cost` compares several programs of a model, and the recipe "
        "`neutron_cortex_m_int8_ptq` makes one\n\nhint: leave it out, or use `deuteron.build`"
    )
    assert refusal(Recipe.COMBINED_PTQ, options=BuildOptions(use_qat=True)) == (
        "the option `use_qat` trains, and the recipe `neutron_cortex_m_int8_ptq` does not\n\n"
        "hint: leave it out, or take `Recipe.COMBINED_QAT`"
    )
    for kind, options in (
        (Recipe.CORTEX_M_PTQ, BuildOptions(weights_bits=WeightBits.AUTO, max_loss=1.0)),
        (Recipe.CORTEX_M_QAT, BuildOptions(weights_bits=WeightBits.AUTO, min_sqnr=20.0)),
        (Recipe.CORTEX_M_PTQ, BuildOptions(weights_bits=WeightBits.AUTO, memory=MemoryOptions(flash_budget=1000))),
    ):
        arguments = {"train_fn": print} if kind.trains else {}
        assert "is checked on the finished program" in refusal(kind, options=options, **arguments)
    assert "`imxrt700` does not support `--activations int16`" in refusal(
        Recipe.NEUTRON_PTQ, options=BuildOptions(activations=Activations.INT16)
    )


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_recipe_is_combined_with_no_other(ours_first: bool) -> None:
    export = importlib.import_module("executorch.export")
    recipes = [recipe(Recipe.CORTEX_M_PTQ), export.ExportRecipe("another")]
    with pytest.raises(OptionError) as refused:
        export.ExportRecipe.combine(recipes if ours_first else recipes[::-1])
    assert str(refused.value) == (
        "the recipe `cortex_m_int8_ptq` is combined with another, and is for all of a model: its processors share what "
        "is quantized\n\nhint: use it by itself; `deuteron targets` lists those with an NPU and a CPU"
    )
