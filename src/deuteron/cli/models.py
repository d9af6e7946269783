"""`deuteron models`: the reference models."""

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
def command(printer: Printer) -> None:
    """List the reference models, which `deuteron build` takes by name."""
    from deuteron.api import COMBINED, EXAMPLES

    examples = (*EXAMPLES, *COMBINED)

    if printer.as_json:
        rows = [
            {
                "name": e.name,
                "input_shape": list(e.input_shape),
                "output_shape": list(e.output_shape),
                "weights": e.weights,
                "summary": e.summary,
            }
            for e in examples
        ]
        printer.json({"schema": 1, "models": rows})
        return
    for e in examples:
        shapes = f"{_shape(e.input_shape)} -> {_shape(e.output_shape)}"
        printer.data(f"{e.name:<20} {shapes:<24} {e.weights:<20} {e.summary}")


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
