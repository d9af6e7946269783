"""Errors: their text, their exit codes, and their way across processes."""

import pickle

import pytest

from deuteron import errors
from deuteron.errors import DeuteronError, UnsupportedError, all_refused, shortened

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DeuteronError)]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DeuteronError("found a"), "found a"),
        (DeuteronError("found a", where="file.pte"), "file.pte: found a"),
        (DeuteronError("found a", hint="do b"), "found a\n\nhint: do b"),
        (DeuteronError("found a", hint="do b", where="file.pte"), "file.pte: found a\n\nhint: do b"),
    ],
)
def test_text(error: DeuteronError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_a_process_boundary(kind: type[DeuteronError]) -> None:
    error = kind("found a", hint="do b", where="file.pte")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.message, again.hint, again.where, str(again)) == ("found a", "do b", "file.pte", str(error))


def test_exit_codes() -> None:
    assert {kind.__name__: kind.exit_code for kind in KINDS} == {
        "DeuteronError": 1,
        "InputError": 1,
        "OptionError": 2,
        "MissingOperatorError": 1,
        "UnsupportedError": 1,
        "CapacityError": 1,
        "BoardError": 1,
        "FormatError": 1,
        "VerifyError": 2,
        "MissingToolError": 2,
        "InternalError": 2,
    }


def test_what_is_refused_alike_is_named_once() -> None:
    def refused(where: str | None, hint: str | None = "do c") -> UnsupportedError:
        return UnsupportedError("`a` has no b", where=where, hint=hint)

    assert str(all_refused([refused("net.py:3")])) == "net.py:3: `a` has no b\n\nhint: do c"
    assert str(all_refused([refused("net.py:3"), refused("net.py:4"), refused("net.py:3"), refused(None)])) == (
        "4 operators cannot be compiled:\n"
        "  net.py:3: `a` has no b, 2 times\n"
        "  net.py:4: `a` has no b\n"
        "  `a` has no b\n\n"
        "hint: do c"
    )
    several = [refused("net.py:3"), refused("net.py:4", "do d"), refused("net.py:5"), refused("net.py:6", None)]
    assert str(all_refused(several)) == (
        "4 operators cannot be compiled:\n"
        "  net.py:3: `a` has no b\n"
        "  net.py:5: `a` has no b\n"
        "    hint: do c\n"
        "  net.py:4: `a` has no b\n"
        "    hint: do d\n"
        "  net.py:6: `a` has no b"
    )


def test_turns_of_a_loop_are_named_once() -> None:
    turns = [UnsupportedError(f"weights `w/{turn}` are int4", where="op 2 of subgraph 1") for turn in range(3)]
    others = [UnsupportedError(f"weights `w/{turn}` are int4", where=f"op {turn}") for turn in range(2)]
    assert all_refused([*turns, *others]).message.splitlines()[1:] == [
        "  op 2 of subgraph 1: weights `w/0` are int4, 3 times",
        "  op 0: weights `w/0` are int4",
        "  op 1: weights `w/1` are int4",
    ]


def test_long_names_lose_their_middle():
    joined = ";".join(f"model/layer_{number}/Relu6" for number in range(9))
    assert shortened(f"CONV_2D ({joined})") == "CONV_2D (model/layer_0/Relu6;model/l..._7/Relu6;model/layer_8/Relu6)"
    assert shortened("model/layer_0/Relu6;model/layer_1/Relu6") == "model/layer_0/Relu6;model/layer_1/Relu6"
