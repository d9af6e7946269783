"""`deuteron doctor`: checks this installation and says how to repair it."""

from typing import TYPE_CHECKING

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.views.installation import Check


CONVERTS_ONLY = "this installation compiles TFLite files only; `pip install 'deuteron[executorch]'` adds PyTorch models"


@new_command
def command(printer: Printer) -> int:
    """Check Python packages, native libraries and programs; exit with 1 if a required one is missing or wrong."""
    from deuteron import api

    checks = api.check_installation()
    bad = [check for check in checks if check.bad]
    if printer.as_json:
        printer.json({"schema": 1, "ok": not bad, "checks": [_record(check) for check in checks]})
    else:
        for check in checks:
            printer.data(f"{check.state.value:<8} {check.name:<21} {check.found:<14} {check.wanted}")
        for check in (*bad, *(c for c in checks if c.is_absent)):
            printer.data(f"\n{check.name}: {check.mend}")
        printer.data(f"\n{_verdict(len(bad))}")
        if api.converts_only(checks):
            printer.data(CONVERTS_ONLY)
    return 1 if bad else 0


def _verdict(bad: int) -> str:
    if bad == 0:
        return "all requirements are met"
    return f"{bad} required {'thing is' if bad == 1 else 'things are'} not right"


def _record(check: "Check") -> dict[str, str]:
    return {
        "name": check.name,
        "state": check.state.value.lower(),
        "found": check.found,
        "wanted": check.wanted,
        "mend": "" if check.state.name == "OK" else check.mend,
    }
