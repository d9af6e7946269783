import json

import pytest

from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.builds.options import Activations, BuildOptions, CalibrationMethod, Converter, WeightValues
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
            calibration_method=CalibrationMethod.MSE,
            equalise=True,
            correct_biases=True,
            min_sqnr=30.5,
            vela=VelaOptions("Ethos_U55_Deep_Embedded", "Sram_Only", Optimise.SIZE, 4096),
        ),
    ],
)
def test_options_survive_json(options: BuildOptions):
    assert BuildOptions.from_json(json.loads(json.dumps(options.to_json()))) == options


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
        ({"speed": 1}, "unknown build option `speed`\n\nhint: it was written by another version of Deuteron"),
        ({"force": 1}, "build option `force` cannot be 1"),
        ({"operators_not_to_delegate": "aten::add"}, "build option `operators_not_to_delegate` cannot be 'aten::add'"),
        ({"operators_not_to_delegate": [1]}, "build option `operators_not_to_delegate` cannot be [1]"),
        ({"converter": None}, "build option `converter` cannot be None"),
        ({"activations": "int4"}, "build option `activations` cannot be 'int4'"),
        ({"calibration_method": "max"}, "build option `calibration_method` cannot be 'max'"),
        ({"min_sqnr": "30"}, "build option `min_sqnr` cannot be '30'"),
        ({"min_sqnr": True}, "build option `min_sqnr` cannot be True"),
        ({"weights": "int16"}, "build option `weights` cannot be 'int16'"),
        ({"vela": {"optimise": "Speed"}}, "build option `vela` cannot be {'optimise': 'Speed'}"),
        ({"vela": {"arena_cache_size": "4"}}, "build option `vela` cannot be {'arena_cache_size': '4'}"),
    ],
)
def test_stored_options_are_checked(data: dict[str, object], text: str):
    with pytest.raises(FormatError) as caught:
        BuildOptions.from_json(data)
    assert str(caught.value) == text
