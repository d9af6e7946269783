"""From a program to a bundle: the plan of a `.pte` followed step by step."""

from deuteron.board.bundle import Bundle
from deuteron.frontend.manifest import Manifest
from deuteron.runtime.pte import Program


def translate(program: Program, manifest: Manifest | None = None, *, name: str, method: str = "forward") -> Bundle:
    """The bundle of one method.

    Args:
        program: what `deuteron.runtime.pte.read` gave.
        manifest: of the build that wrote it: errors and the C file then name lines of the model.
        name: what the bundle is called, for readers.
        method: which method.

    Raises:
        UnsupportedError: for an operator or a form of tensor that firmware does not have, naming it and the line.
        InputError: when the program has no such method.
    """
    raise NotImplementedError
