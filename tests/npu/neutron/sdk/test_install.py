"""The package in the import system: put in, taken out, never in the vendor's way; failures cross processes."""

import importlib
import importlib.util
import multiprocessing
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from deuteron.errors import FormatError, InternalError, OptionError, UnsupportedError
from deuteron.npu.neutron import sdk

PARTS = ("eiq_neutron_sdk", "eiq_neutron_sdk.neutron_converter", "eiq_neutron_sdk.neutron_library_utils")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sdk.Session]:
    """A session whose package is installed."""
    made = sdk.Session(tmp_path)
    sdk.install(made)
    yield made
    sdk.uninstall()


def test_every_way_to_import_it_works(session: sdk.Session) -> None:
    package = importlib.import_module("eiq_neutron_sdk")
    assert importlib.import_module("eiq_neutron_sdk.neutron_converter") is package.neutron_converter
    assert importlib.import_module("eiq_neutron_sdk.neutron_library_utils") is package.neutron_library_utils
    assert Path(str(package.__file__)).is_file()
    assert importlib.util.find_spec("eiq_neutron_sdk") is not None


def test_uninstall_takes_all_of_it_out(session: sdk.Session) -> None:
    sdk.uninstall()
    assert not [name for name in sys.modules if name.startswith("eiq_neutron_sdk")]
    assert importlib.util.find_spec("eiq_neutron_sdk") is None
    sdk.uninstall()  # twice is once


def test_a_second_install_serves_the_new_session(session: sdk.Session, tmp_path: Path) -> None:
    other = sdk.Session(tmp_path / "other")
    other.directory.mkdir()
    sdk.install(other)
    converter = importlib.import_module("eiq_neutron_sdk").neutron_converter
    with pytest.raises(OptionError):
        converter.convertModel([], converter.CompilationContext())
    session.raise_failure()
    with pytest.raises(OptionError):
        other.raise_failure()


def _vendor(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("eiq_neutron_sdk")
    monkeypatch.setitem(sys.modules, "eiq_neutron_sdk", module)
    return module


def test_the_vendors_package_is_not_hidden_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vendor = _vendor(monkeypatch)
    with pytest.raises(OptionError) as caught:
        sdk.install(sdk.Session(tmp_path))
    assert str(caught.value) == (
        "the vendor's package `eiq_neutron_sdk` is installed and would be hidden\n\n"
        "hint: choose `--converter vendor` to use it, or ask to shadow it"
    )
    sdk.uninstall()
    assert sys.modules["eiq_neutron_sdk"] is vendor


def test_an_installed_vendor_package_that_is_not_imported_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "eiq_neutron_sdk").mkdir()
    (tmp_path / "eiq_neutron_sdk" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(OptionError, match="would be hidden"):
        sdk.install(sdk.Session(tmp_path))


def test_shadowing_gives_the_vendors_package_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vendor = _vendor(monkeypatch)
    sdk.install(sdk.Session(tmp_path), shadow_vendor=True)
    assert sys.modules["eiq_neutron_sdk"] is not vendor
    sdk.uninstall()
    assert sys.modules["eiq_neutron_sdk"] is vendor


def _convert_garbage() -> None:
    converter = importlib.import_module("eiq_neutron_sdk").neutron_converter
    context = converter.CompilationContext()
    context.targetOpts = converter.getNeutronTarget("imxrt700")
    converter.convertModel([1, 2, 3], context)


def test_a_failure_in_a_forked_process_is_raised_in_the_parent_once(
    session: sdk.Session, capfd: pytest.CaptureFixture[str]
) -> None:
    child = multiprocessing.get_context("fork").Process(target=_convert_garbage)
    child.start()
    child.join()
    assert child.exitcode == 1
    with pytest.raises(FormatError):
        session.raise_failure()
    session.raise_failure()


def test_all_of_an_error_survives(session: sdk.Session) -> None:
    session.record(UnsupportedError("what", hint="do", where="there"))
    with pytest.raises(UnsupportedError) as caught:
        session.raise_failure()
    assert str(caught.value) == "there: what\n\nhint: do"


def test_an_error_that_is_not_ours_is_a_defect_with_its_traceback(session: sdk.Session) -> None:
    try:
        {}["missing"]
    except KeyError as error:
        session.record(error)
    with pytest.raises(InternalError, match=r"(?s)^the converter failed: Traceback .*KeyError: 'missing'"):
        session.raise_failure()
