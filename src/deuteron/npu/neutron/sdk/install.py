"""Adds the package to the import system, and removes it."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import ModuleType

from deuteron.errors import OptionError
from deuteron.npu.neutron.sdk import library, surface
from deuteron.npu.neutron.sdk.session import Session

PACKAGE = "eiq_neutron_sdk"
_OURS = "__deuteron__"
"""Attribute that marks our package; it holds the hidden modules."""
_MARK = "__deuteron__.py"
"""File that marks our package if it is installed under the vendor's name."""


def install(session: Session, *, shadow_vendor: bool = False) -> None:
    """Make `import eiq_neutron_sdk` find our package, whose failures go to `session`.

    Raises:
        OptionError: the vendor's package is installed and `shadow_vendor` is not set.
    """
    if not shadow_vendor and vendor_is_installed():
        raise OptionError(
            f"the vendor's package `{PACKAGE}` is installed and would be hidden",
            hint="choose `--converter vendor` to use it, or ask to shadow it",
        )
    uninstall()
    package = _module(PACKAGE, merge_kernel_selection_files=surface.merge_kernel_selection_files)
    package.__path__ = []
    parts = {
        "neutron_converter": _module(
            f"{PACKAGE}.neutron_converter",
            CompilationContext=surface.CompilationContext,
            getNeutronTarget=library.getNeutronTarget,
            convertModel=surface.Converter(session).convertModel,
        ),
        "neutron_library_utils": _module(
            f"{PACKAGE}.neutron_library_utils",
            isNeutronTarget=library.isNeutronTarget,
            getNeutronTargets=library.getNeutronTargets,
        ),
    }
    setattr(package, _OURS, _take_modules())  # modules of the vendor, restored later
    sys.modules[PACKAGE] = package
    for name, part in parts.items():
        setattr(package, name, part)
        sys.modules[f"{PACKAGE}.{name}"] = part


def uninstall() -> None:
    """Remove our package from the import system, and restore the vendor's, if any."""
    hidden: dict[str, ModuleType] | None = getattr(sys.modules.get(PACKAGE), _OURS, None)
    if hidden is not None:
        _take_modules()
        sys.modules.update(hidden)


def _take_modules() -> dict[str, ModuleType]:
    """Remove `eiq_neutron_sdk` and its submodules from `sys.modules`, and return them."""
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}


def vendor_is_installed() -> bool:
    """Return True if the vendor's package is imported or installed, so that ours would hide it."""
    loaded = sys.modules.get(PACKAGE)
    spec = importlib.util.find_spec(PACKAGE) if loaded is None else None
    if hasattr(loaded, _OURS) or (loaded is None and spec is None):
        return False
    places = (spec.submodule_search_locations if spec else getattr(loaded, "__path__", None)) or ()
    return _has_distribution() or not any((Path(place) / _MARK).is_file() for place in places)


def check_alone() -> None:
    """Raise ImportError if the vendor's package is installed, too, because files of both are in one folder."""
    if _has_distribution():
        raise ImportError(
            f"`{PACKAGE}` is installed twice, by its vendor and by `deuteron-eiq-neutron-sdk`, one over the other\n\n"
            f"hint: `pip uninstall {PACKAGE} deuteron-eiq-neutron-sdk`, then install the one that you want"
        )


def _has_distribution() -> bool:
    """Return True if pip has installed the vendor's package."""
    try:
        distribution(PACKAGE)
    except PackageNotFoundError:
        return False
    return True


def _module(name: str, **members: object) -> ModuleType:
    """Return a module with these members."""
    module = ModuleType(name, "Deuteron in the place of the vendor's converter.")
    module.__file__ = str(Path(__file__).parent / "__init__.py")
    module.__spec__ = ModuleSpec(name, None, origin=module.__file__, is_package=name == PACKAGE)
    for member, value in members.items():
        setattr(module, member, value)
    return module
