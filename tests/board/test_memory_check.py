"""Every kind of hazard of rows, planted into the stripes of a bundle, is found where it is."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from tests import store
from tests.board.models import stripes_on_cpu

from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board import arena, image
from deuteron.board.bundle import Bundle
from deuteron.board.memory_check import hazards
from deuteron.board.row_dependencies import CPU
from deuteron.builds import manifest as manifests
from deuteron.errors import InternalError
from deuteron.operators.program import KernelCall, Program
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.stripes import Cascade, cut_into_stripes

Calls = Sequence[KernelCall]
Planted = tuple[Bundle, Calls]

CORE = "cortex-m55"
CONV, DEEP, KEEP, BACK, CONV_1, DEEP_1 = 2, 3, 5, 8, 9, 10
"""Steps of the first two stripes: the first writes rows 0-6, of which the second reads rows 0-6 and, with what is kept,
5-12."""
PAD_H = 12
"""Word of a convolution's record."""


@pytest.fixture(scope="module")
def sound() -> tuple[Bundle, Bundle, Calls, Calls]:
    """Return the checker's arguments for a plan in stripes that keep rows, with blocks that live as wholes."""
    build = store.network(stripes_on_cpu, "stripes_on_cpu", target=CORE)
    bundle = image.translated(build, manifests.read(build))
    plans: list[tuple[Bundle, Bundle, Calls, Calls]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arena, "hazards", lambda *each: plans.append(each) or ())
        patch.setattr(arena, "lifetimes", lambda program: [replace(b, parts=()) for b in lifetimes(program)])
        patch.setattr(arena, "_plan_in_budget", lambda _, whole, *rest: arena._plan(_cut(whole.program)))
        arena.planned(bundle, MemoryOptions(depth_first=DepthFirst.ALWAYS), CORE)
    return plans[0]


def _cut(program: Program) -> Program:
    """The five steps from the first convolution to the pool, three rows at a time."""
    cut = cut_into_stripes(program, (Cascade(3, 8, 3, cache_halo=True),), CPU)
    assert cut is not None
    return cut


def _ordered(bundle: Bundle, calls: Calls, order: Sequence[int]) -> Planted:
    return replace(bundle, steps=tuple(bundle.steps[i] for i in order)), [calls[i] for i in order]


def _without(bundle: Bundle, calls: Calls, step: int) -> Planted:
    return _ordered(bundle, calls, [i for i in range(len(calls)) if i != step])


def _earlier(bundle: Bundle, calls: Calls, step: int, place: int) -> Planted:
    order = list(range(len(calls)))
    order.insert(place, order.pop(step))
    return _ordered(bundle, calls, order)


def _with_value(bundle: Bundle, calls: Calls, step: int, operand: int, **changes: int) -> Planted:
    """Move a value that a step reads or writes to another place, as a new value of this step only."""
    own = bundle.steps[step]
    used = [*own.inputs, *own.outputs]
    values = (*bundle.values, replace(bundle.values[used[operand]], **changes))
    used[operand] = len(bundle.values)
    return _with_step(replace(bundle, values=values), calls, step, used, own.params)


def _with_step(bundle: Bundle, calls: Calls, step: int, used: Sequence[int], params: tuple[int, ...]) -> Planted:
    own = bundle.steps[step]
    count = len(own.inputs)
    changed = replace(own, inputs=tuple(used[:count]), outputs=tuple(used[count:]), params=params)
    return replace(bundle, steps=(*bundle.steps[:step], changed, *bundle.steps[step + 1 :])), calls


def _with_word(bundle: Bundle, calls: Calls, step: int, word: int, by: int) -> Planted:
    own = bundle.steps[step]
    params = list(own.params)
    params[word] += by
    return _with_step(bundle, calls, step, (*own.inputs, *own.outputs), tuple(params))


MAP, SECOND, NARROW = "quantized_conv2d_default", "quantized_depthwise_conv2d_default", "quantized_conv2d_default_1"
NEEDS = f"`{SECOND}, rows 6-11 in stripe 1 of chain 0`: operand 0 needs"

PLANTED: Mapping[str, tuple[Callable[[Bundle, Calls], Planted], str]] = {
    "read before it is written": (
        lambda b, c: _earlier(b, c, DEEP_1, CONV_1),
        f"step 9, {NEEDS} byte 1344 of `{MAP}` at byte 384 of memory 0, which holds byte 384 of `{NARROW}`, "
        "written by step 6",
    ),
    "never written": (
        lambda b, c: _without(b, c, CONV),
        f"step 2, `{SECOND}, rows 0-5 in stripe 0 of chain 0`: operand 0 needs byte 0 of `{MAP}` at byte 0 of "
        "memory 0, which holds byte 0 of `input 0`",
    ),
    "not kept": (
        lambda b, c: _without(b, c, KEEP),
        f"step 9, {NEEDS} byte 960 of `{MAP}` at byte 0 of memory 0, which holds byte 6336 of `input 0`, "
        "written by step 7",
    ),
    "kept too early": (
        lambda b, c: _earlier(b, c, KEEP, CONV),
        f"step 10, {NEEDS} byte 960 of `{MAP}` at byte 0 of memory 0, which holds byte 960 of `input 0`, "
        "written by step 8",
    ),
    "not brought back": (
        lambda b, c: _without(b, c, BACK),
        f"step 9, {NEEDS} byte 960 of `{MAP}` at byte 0 of memory 0, which holds byte 0 of `{NARROW}`, "
        "written by step 6",
    ),
    "other rows kept": (
        lambda b, c: _with_value(b, c, KEEP, 0, offset=768),
        f"step 10, {NEEDS} byte 960 of `{MAP}` at byte 0 of memory 0, which holds byte 768 of `{MAP}`, "
        "written by step 8",
    ),
    "other rows read": (
        lambda b, c: _with_value(b, c, DEEP_1, 0, offset=192),
        f"step 10, {NEEDS} byte 960 of `{MAP}` at byte 192 of memory 0, which holds byte 1152 of `{MAP}`, "
        "written by step 8",
    ),
    "overwritten while it is needed": (
        lambda b, c: _with_value(b, c, KEEP, 1, offset=4992),
        f"step 9, `{MAP}, rows 7-12 in stripe 1 of chain 0`: operand 0 needs byte 144 of `quantize_per_tensor_default` "
        f"at byte 5040 of memory 0, which holds byte 1008 of `{MAP}`, written by step 5",
    ),
    "written elsewhere": (
        lambda b, c: _with_value(b, c, CONV_1, 6, offset=1648),
        f"step 10, {NEEDS} byte 1344 of `{MAP}` at byte 384 of memory 0, which holds byte 384 of `{NARROW}`, "
        "written by step 6",
    ),
    "beyond the memory": (
        lambda b, c: _with_value(b, c, CONV_1, 6, offset=7504),
        f"step 9, `{MAP}, rows 7-12 in stripe 1 of chain 0`: bytes 7504..8655 exceed the 8640 bytes of memory 0",
    ),
    "onto what it reads": (
        lambda b, c: _with_value(b, c, DEEP, 6, offset=1328),
        f"step 3, `{SECOND}, rows 0-5 in stripe 0 of chain 0` would write bytes 1328..2479 over bytes 0..1343, which "
        "it also uses",
    ),
    "copied from outside": (
        lambda b, c: _with_word(b, c, KEEP, 1, 400),
        f"step 5, `{MAP}, kept rows 5-6 in stripe 0 of chain 0` copies bytes outside its values",
    ),
    "other padding": (
        lambda b, c: _with_word(b, c, CONV_1, PAD_H, 1),
        f"step 9, `{MAP}, rows 7-12 in stripe 1 of chain 0` has parameters or sizes that do not match its rows",
    ),
    "rows that it has not": (
        lambda b, c: _with_value(b, c, CONV_1, 6, bytes=1152 - 6),
        f"step 9, `{MAP}, rows 7-12 in stripe 1 of chain 0` computes rows of 191 bytes, which its operator does not "
        "have",
    ),
    "another constant": (
        lambda b, c: _with_value(b, c, DEEP, 2, memory=65542),
        f"step 3, `{SECOND}, rows 0-5 in stripe 0 of chain 0`: operand 2 is another constant, or another part of it",
    ),
    "an output that is not there": (
        lambda b, c: _without(b, c, len(c) - 1),
        "output 0 needs byte 0 of `dequantize_per_tensor_default` at byte 0 of memory 0, which holds byte 0 of "
        "`quantized_avg_pool2d_default`, written by step 28",
    ),
}


def _short(found: str) -> str:
    """The sentence with the last part of each node's name alone."""
    return re.sub(r"cortex_m::\w+\.out, node cortex_m_", "", found)


@pytest.mark.slow
def test_a_sound_plan_has_no_hazards(sound: tuple[Bundle, Bundle, Calls, Calls]) -> None:
    assert list(hazards(*sound)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLANTED)
def test_every_hazard_of_rows_is_found(sound: tuple[Bundle, Bundle, Calls, Calls], kind: str) -> None:
    before, after, whole, calls = sound
    plant, message = PLANTED[kind]
    broken, order = plant(after, calls)
    assert _short(hazards(before, broken, whole, order)[0]) == message


@pytest.mark.slow
def test_a_plan_with_a_hazard_is_a_defect_of_ours(
    sound: tuple[Bundle, Bundle, Calls, Calls], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arena, "hazards", lambda *_: ["step 3 needs what is not there"])
    with pytest.raises(InternalError) as refused:
        arena.planned(sound[0], MemoryOptions(depth_first=DepthFirst.ALWAYS), CORE)
    assert str(refused.value) == (
        "the stripes of `stripes_on_cpu` are wrong: step 3 needs what is not there\n\nhint: report the model with "
        "this text; `--depth-first never` makes no stripes"
    )
