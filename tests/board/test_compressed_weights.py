"""Compressed weights take less flash, within the budgets and with the same results; the views show which."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tests.board.test_larger_weights import CORE, output, two_layers

from deuteron.arch import cores
from deuteron.arch.cores import InnerWork
from deuteron.arch.memory import DepthFirst, MemoryOptions, WeightsCompression
from deuteron.arch.targets import load
from deuteron.board import boards, compressed_weights, image, interleaved_weights, library
from deuteron.board.arena import planned
from deuteron.board.bundle import Bundle
from deuteron.board.row_dependencies import DECOMPRESS, Counted
from deuteron.board.toolchain import Toolchain
from deuteron.errors import CapacityError, OptionError


def constant_bytes(bundle: Bundle) -> int:
    return sum(map(len, bundle.constants))


AUTO = MemoryOptions(weights_compression=WeightsCompression.AUTO)


def sparse(bundle: Bundle) -> Bundle:
    """The bundle with three of four weights of its second layer zero."""
    index = next(at for at, data in enumerate(bundle.constants) if len(data) == 8 * 9 * 8)
    weights = np.frombuffer(bundle.constants[index], np.int8) * (np.arange(8 * 9 * 8) % 4 == 0)
    constants = (*bundle.constants[:index], weights.astype(np.int8).tobytes(), *bundle.constants[index + 1 :])
    return replace(bundle, constants=constants)


def test_a_layer_gets_fewer_bytes_and_the_same_results() -> None:
    bundle = sparse(two_layers())
    plain, small = planned(bundle, MemoryOptions(), CORE), planned(bundle, AUTO, CORE)
    assert constant_bytes(small.bundle) < constant_bytes(plain.bundle) - 200
    assert small.bundle.operators == ("dtn_cm_quantized_conv2d", DECOMPRESS)
    (choice,) = small.compressed
    assert choice.sizes[0] == 8 * 9 * 8
    assert choice.saved == constant_bytes(plain.bundle) - constant_bytes(small.bundle)
    assert output(small.bundle) == output(plain.bundle)


def test_a_budget_that_takes_stripes_leaves_the_weights_of_their_layers() -> None:
    bundle = sparse(two_layers())
    cut = planned(bundle, MemoryOptions(depth_first=DepthFirst.ALWAYS), CORE)
    assert cut.chains
    small = planned(bundle, replace(AUTO, sram_budget=cut.memory.nbytes), CORE)
    assert small.chains
    assert small.compressed == ()  # the step would be between the layers of the chain
    whole = planned(bundle, replace(AUTO, depth_first=DepthFirst.ALWAYS), CORE)
    assert output(whole.bundle) == output(small.bundle) == output(cut.bundle)


def test_two_layers_read_weights_that_are_decompressed_once() -> None:
    bundle = sparse(two_layers())
    twice = replace(bundle, steps=(*bundle.steps, replace(bundle.steps[1], instruction=2)))
    small = planned(twice, AUTO, CORE)
    assert [small.bundle.operators[step.index] for step in small.bundle.steps].count(DECOMPRESS) == 1
    assert output(small.bundle) == output(planned(twice, MemoryOptions(), CORE).bundle)


def test_a_palette_of_sixteen_values() -> None:
    bundle = two_layers()
    constants = tuple((np.frombuffer(data, np.int8) // 16 * 16).astype(np.int8).tobytes() for data in bundle.constants)
    few = replace(bundle, constants=tuple(
        data if len(data) == 8 * 9 * 8 else own for data, own in zip(constants, bundle.constants, strict=True)
    ))  # fmt: skip
    small = planned(few, AUTO, CORE)
    assert [choice.record.text for choice in small.compressed] == ["a palette of 16 values"]
    assert output(small.bundle) == output(planned(few, MemoryOptions(), CORE).bundle)


def test_with_a_flash_budget_no_more_is_compressed_than_it_takes() -> None:
    bundle = sparse(two_layers())
    needed = interleaved_weights.constant_bytes(bundle, InnerWork.DSP)
    fits = planned(bundle, replace(AUTO, flash_budget=needed), CORE)
    assert fits.compressed == ()
    assert len(planned(bundle, replace(AUTO, flash_budget=needed - 1), CORE).compressed) == 1
    with pytest.raises(CapacityError) as caught:
        planned(bundle, replace(AUTO, flash_budget=needed // 2), CORE)
    assert "bytes of flash, the budget is" in str(caught.value)


def test_weights_that_do_not_fit_into_sram_stay_in_flash() -> None:
    bundle = sparse(two_layers())
    least = planned(bundle, MemoryOptions(), CORE).memory.nbytes
    arena = planned(bundle, replace(AUTO, sram_budget=least), CORE)
    assert arena.compressed == ()
    assert arena.memory.nbytes <= least


@pytest.mark.parametrize("core", ["cortex-m33", "cortex-m0plus"])
def test_the_decoder_takes_less_than_a_kilobyte(core: str) -> None:
    (source,) = (one for one in library.core(boards.load("an505")) if one.name == "cortex_m.dtn_cm_decompress")
    (made,) = Toolchain.find(image.OBJECTS).compile([source], (f"-mcpu={core}", "-mthumb"), library.FIRMWARE)
    done = subprocess.run(["arm-none-eabi-size", made.path], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[1].split()[0]) <= 1024


def test_random_weights_and_parts_of_constants_stay_as_they_are() -> None:
    rates = Counted(cores.load(CORE))
    assert compressed_weights.candidates(two_layers(), rates) == []
    bundle = sparse(two_layers())
    for other in ("dtn_cm_copy", "dtn_op_state_begin"):  # the initial state is read before the first step
        assert compressed_weights.candidates(replace(bundle, operators=(other,)), rates) == []
    returned = replace(bundle, outputs=(*bundle.outputs, bundle.steps[1].inputs[1]))
    assert compressed_weights.candidates(returned, rates) == []


@pytest.mark.parametrize("target", ["imxrt700", "ethos-u55-128"])
def test_targets_with_an_npu_refuse_the_option(target: str) -> None:
    with pytest.raises(OptionError, match="weights-compression"):
        AUTO.check(load(target))
