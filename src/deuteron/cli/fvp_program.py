"""`deuteron-fvp`: a substitute for Arm's simulators of the Corstone platforms, with their command line."""

import sys
from collections.abc import Sequence

from deuteron.cli.printer import Printer
from deuteron.errors import DeuteronError
from deuteron.runtime import fvp

USAGE = """\
usage: deuteron-fvp SIMULATOR -C NAME=VALUE .. -a IMAGE [--timelimit SECONDS]
       deuteron-fvp SIMULATOR --version

A substitute for Arm's simulators (FVPs) with the command line that ExecuTorch's tests use. It runs the .pte file that
`cpu0.semihosting-cmd_line` names in ExecuTorch's runtime on this computer, Ethos-U partitions bit for bit, and
writes its outputs. It boots no image and counts no cycles. `deuteron fvp install DIR` writes programs with the
simulators' names. SIMULATOR is one of:
"""


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 if the outputs are written; else print the reason to standard output, where ExecuTorch's tests look."""
    printer = Printer()
    name, *rest = (sys.argv[1:] if words is None else words) or ("--help",)
    try:
        if name in ("-h", "--help"):
            printer.data(USAGE + "".join(f"  {one.name}\n" for one in fvp.FVPS).rstrip())
            return 0
        if name == "--version":
            name, rest = fvp.FVPS[0].name, ["--version"]
        simulator = fvp.fvp(name)
        if "--version" in rest:
            printer.data(fvp.version(simulator))
            return 0
        simulation = fvp.Simulation.of(simulator, rest)
        count = fvp.run(simulation)
        printer.data(f"deuteron-fvp for {name}: ran `{simulation.program}`, wrote {count} output{'s' * (count != 1)}")
    except DeuteronError as error:
        printer.data(f"E: {error}")
        return error.exit_code
    except OSError as error:
        printer.data(f"E: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
