"""Puts the package into the import system and takes it out again."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from deuteron.errors import OptionError
from deuteron.npu.neutron.sdk import library, surface
from deuteron.npu.neutron.sdk.session import Session

PACKAGE = "eiq_neutron_sdk"
_OURS = "__deuteron__"
"""Attribute that marks our package; it holds what it hides."""


def install(session: Session, *, shadow_vendor: bool = False) -> None:
    """Makes `import eiq_neutron_sdk` find ours, whose failures go to `session`.

    Raises:
        OptionError: when the vendor's package is installed and `shadow_vendor` does not say to hide it.
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
    setattr(package, _OURS, _take_modules())  # of the vendor's, to be put back
    sys.modules[PACKAGE] = package
    for name, part in parts.items():
        setattr(package, name, part)
        sys.modules[f"{PACKAGE}.{name}"] = part


def uninstall() -> None:
    """Takes our package out of the import system; the vendor's, or none, is there again as it was before."""
    hidden: dict[str, ModuleType] | None = getattr(sys.modules.get(PACKAGE), _OURS, None)
    if hidden is not None:
        _take_modules()
        sys.modules.update(hidden)


def _take_modules() -> dict[str, ModuleType]:
    """The modules of the package that are imported now, which are no longer."""
    names = [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]
    return {name: sys.modules.pop(name) for name in names}


def vendor_is_installed() -> bool:
    """Whether there is a package of the vendor's, imported or to be imported, which ours would hide."""
    loaded = sys.modules.get(PACKAGE)
    if loaded is not None:
        return not hasattr(loaded, _OURS)
    return importlib.util.find_spec(PACKAGE) is not None


def _module(name: str, **members: object) -> ModuleType:
    """A module of ours with these members."""
    module = ModuleType(name, "Deuteron in the place of the vendor's converter.")
    module.__file__ = str(Path(__file__).parent / "__init__.py")
    module.__spec__ = ModuleSpec(name, None, origin=module.__file__, is_package=name == PACKAGE)
    for member, value in members.items():
        setattr(module, member, value)
    return module
