"""The Python API: all functions of the command line; each name is loaded on first use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deuteron.api.ask import check_installation as check_installation
    from deuteron.api.ask import compare as compare
    from deuteron.api.ask import compare_profiles as compare_profiles
    from deuteron.api.ask import compare_simulations as compare_simulations
    from deuteron.api.ask import converts_only as converts_only
    from deuteron.api.ask import explain as explain
    from deuteron.api.ask import formats as formats
    from deuteron.api.ask import inspect as inspect
    from deuteron.api.ask import kernels as kernels
    from deuteron.api.ask import missing as missing
    from deuteron.api.ask import operators as operators
    from deuteron.api.ask import plan as plan
    from deuteron.api.ask import profile as profile
    from deuteron.api.ask import read_manifest as read_manifest
    from deuteron.api.ask import read_profile as read_profile
    from deuteron.api.ask import report as report
    from deuteron.api.ask import run as run
    from deuteron.api.ask import run_each as run_each
    from deuteron.api.ask import simulate as simulate
    from deuteron.api.ask import stream as stream
    from deuteron.api.ask import subject as subject
    from deuteron.api.ask import sweep_page as sweep_page
    from deuteron.api.ask import sweep_table as sweep_table
    from deuteron.api.ask import targets as targets
    from deuteron.api.boards import flash as flash
    from deuteron.api.checks import check as check
    from deuteron.api.checks import check_model as check_model
    from deuteron.api.make import Build as Build
    from deuteron.api.make import build as build
    from deuteron.api.make import build_model as build_model
    from deuteron.api.make import bundle as bundle
    from deuteron.api.make import convert_file as convert_file
    from deuteron.api.make import execute as execute
    from deuteron.api.make import firmware as firmware
    from deuteron.api.make import install_fvps as install_fvps
    from deuteron.api.make import merge_kernel_selections as merge_kernel_selections
    from deuteron.api.make import shrink as shrink
    from deuteron.api.make import sweep as sweep
    from deuteron.api.meters import calibrate as calibrate
    from deuteron.api.meters import energy as energy
    from deuteron.board.emit import EmitOptions as EmitOptions
    from deuteron.board.emit import Placement as Placement
    from deuteron.board.firmware_record import FirmwareOptions as FirmwareOptions
    from deuteron.board.firmware_record import IoCopy as IoCopy
    from deuteron.board.firmware_record import Kernels as Kernels
    from deuteron.board.firmware_record import Weights as Weights
    from deuteron.board.flash import FlashOptions as FlashOptions
    from deuteron.builds.manifest import Manifest as Manifest
    from deuteron.builds.manifest import TensorInfo as TensorInfo
    from deuteron.builds.options import DEFAULT_TARGET as DEFAULT_TARGET
    from deuteron.builds.options import Activations as Activations
    from deuteron.builds.options import BuildOptions as BuildOptions
    from deuteron.builds.options import CalibrationMethod as CalibrationMethod
    from deuteron.builds.options import Converter as Converter
    from deuteron.builds.options import Partitioning as Partitioning
    from deuteron.builds.options import StreamOptions as StreamOptions
    from deuteron.builds.options import TfliteOptions as TfliteOptions
    from deuteron.builds.options import WeightBits as WeightBits
    from deuteron.builds.options import WeightValues as WeightValues
    from deuteron.builds.target_checks import ModelCheck as ModelCheck
    from deuteron.builds.target_checks import TargetCheck as TargetCheck
    from deuteron.frontend.examples import COMBINED as COMBINED
    from deuteron.frontend.examples import EXAMPLES as EXAMPLES
    from deuteron.frontend.examples import REFERENCES as REFERENCES
    from deuteron.frontend.examples import ExampleModel as ExampleModel
    from deuteron.npu.neutron.convert import Conversion as Conversion
    from deuteron.npu.neutron.convert import ConvertOptions as ConvertOptions
    from deuteron.npu.neutron.kernels.event_names import kernel_names as kernel_names
    from deuteron.npu.neutron.tflite_partitioner import Mixed as Mixed
    from deuteron.runtime.inputs import check_inputs as check_inputs
    from deuteron.runtime.inputs import seeded_inputs as seeded_inputs
    from deuteron.views.shrink import Shrinking as Shrinking

_NAMES = {
    "api.ask": (
        "check_installation", "compare", "compare_profiles", "compare_simulations", "converts_only", "explain",
        "formats", "inspect", "kernels", "missing", "operators", "plan", "profile", "read_manifest", "read_profile",
        "report", "run", "run_each", "simulate", "stream", "subject", "sweep_page", "sweep_table", "targets",
    ),
    "api.checks": ("check", "check_model"),
    "api.make": (
        "Build", "build", "build_model", "bundle", "convert_file", "execute", "firmware", "install_fvps",
        "merge_kernel_selections", "shrink", "sweep",
    ),
    "api.boards": ("flash",),
    "api.meters": ("calibrate", "energy"),
    "board.emit": ("EmitOptions", "Placement"),
    "board.flash": ("FlashOptions",),
    "board.firmware_record": ("FirmwareOptions", "IoCopy", "Kernels", "Weights"),
    "builds.manifest": ("Manifest", "TensorInfo"),
    "builds.options": (
        "DEFAULT_TARGET",
        "Activations",
        "BuildOptions",
        "CalibrationMethod",
        "Converter",
        "Partitioning",
        "StreamOptions",
        "TfliteOptions",
        "WeightBits",
        "WeightValues",
    ),
    "builds.target_checks": ("ModelCheck", "TargetCheck"),
    "frontend.examples": ("COMBINED", "EXAMPLES", "REFERENCES", "ExampleModel"),
    "npu.neutron.convert": ("Conversion", "ConvertOptions"),
    "npu.neutron.kernels.event_names": ("kernel_names",),
    "npu.neutron.tflite_partitioner": ("Mixed",),
    "runtime.inputs": ("check_inputs", "seeded_inputs"),
    "views.shrink": ("Shrinking",),
}  # fmt: skip
"""Module below `deuteron` -> its public names."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load the public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    return getattr(import_module(f"deuteron.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
