import json

import pytest

from deuteron import records
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.builds.options import Activations, BuildOptions, CalibrationMethod, Converter, WeightBits, WeightValues
from deuteron.errors import FormatError, OptionError


@pytest.mark.parametrize(
    "options",
    [
        BuildOptions(),
        BuildOptions(
            converter=Converter.VENDOR,
            activations=Activations.INT16,
            operators_not_to_delegate=("aten::convolution", "aten_addmm_default"),
            remove_quant_io_ops=True,
            use_profiling=True,
            memory=MemoryOptions(FetchPolicy.ALWAYS, sram_budget=65_536, flash_bandwidth=50_000_000),
            dump_kernel_selection_code=True,
            intermediates=True,
            verify_each=True,
            force=True,
        ),
        BuildOptions(
            activations=Activations.INT16,
            weights=WeightValues.INT4,
            weights_bits=WeightBits.AUTO,
            max_loss=1.5,
            calibration_method=CalibrationMethod.MSE,
            equalise=True,
            correct_biases=True,
            min_sqnr=30.5,
            vela=VelaOptions("Ethos_U55_Deep_Embedded", "Sram_Only", Optimise.SIZE, 4096),
        ),
    ],
)
def test_options_survive_json(options: BuildOptions):
    assert records.parse(json.dumps(records.plain(options)), BuildOptions, "b", "again") == options


def test_unknown_converter():
    with pytest.raises(OptionError) as caught:
        Converter.parse("vela")
    assert str(caught.value) == (
        "unknown converter `vela`\n\nhint: choose `open` (Deuteron's own) or `vendor` (NXP's eiq_neutron_sdk)"
    )


@pytest.mark.parametrize("operator", ["", "aten::add,aten::mul", "aten::add "])
def test_operator_names_are_one_word_each(operator: str):
    with pytest.raises(OptionError) as caught:
        BuildOptions(operators_not_to_delegate=(operator,))
    assert str(caught.value) == (
        f"`{operator}` is not an operator name\n\n"
        "hint: give one edge operator per item, for example `aten::convolution`"
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"speed": 1}, "has an unknown entry `speed`"),
        ({"force": 1}, "cannot have 1 at `force`"),
        ({"operators_not_to_delegate": "aten::add"}, "cannot have 'aten::add' at `operators_not_to_delegate`"),
        ({"operators_not_to_delegate": [1]}, "cannot have 1 at `operators_not_to_delegate[0]`"),
        ({"converter": None}, "cannot have None at `converter`"),
        ({"activations": "int4"}, "cannot have 'int4' at `activations`"),
        ({"calibration_method": "max"}, "cannot have 'max' at `calibration_method`"),
        ({"min_sqnr": "30"}, "cannot have '30' at `min_sqnr`"),
        ({"min_sqnr": True}, "cannot have True at `min_sqnr`"),
        ({"weights": "int16"}, "cannot have 'int16' at `weights`"),
        ({"vela": {"optimise": "Speed"}}, "cannot have 'Speed' at `vela.optimise`"),
        ({"vela": {"arena_cache_size": "4"}}, "cannot have '4' at `vela.arena_cache_size`"),
        ({"memory": {"sram": 4}}, "has an unknown entry `memory.sram`"),
    ],
)
def test_stored_options_are_checked(data: dict[str, object], text: str):
    with pytest.raises(FormatError) as caught:
        records.parse(json.dumps({**records.plain(BuildOptions()), **data}), BuildOptions, "b", "again")
    assert str(caught.value) == f"`b` {text}\n\nhint: again"


def test_memory_options_left_to_the_target_are_not_stored():
    assert records.plain(MemoryOptions(sram_budget=4)) == {
        "fetch_constants_to_sram": "auto",
        "sram_budget": 4,
        "effort": "fast",
        "depth_first": "auto",
        "io_in_scratch": "auto",
        "speed_for_flash": "auto",
        "weights_compression": "never",
    }
