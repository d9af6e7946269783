from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
import torch
from torch import fx, nn

from deuteron.errors import InputError
from deuteron.frontend.inputs import begun, check_calibration, check_early, check_example_inputs, check_module

EXAMPLE = (torch.zeros(1, 3, 4, 4), torch.zeros(1, dtype=torch.int64))
GOOD = (torch.ones(1, 3, 4, 4), torch.ones(1, dtype=torch.int64))


def test_calibration_that_cannot_be_iterated():
    with pytest.raises(InputError) as caught:
        check_early(5, EXAMPLE)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the calibration data is of type `int`\n\n"
        "hint: give a list, or anything else that can be iterated, of tensors or tuples of tensors"
    )


def test_torchscript_is_refused():
    with pytest.raises(InputError) as caught:
        check_module(torch.jit.script(nn.Linear(2, 2)))
    assert str(caught.value) == (
        "the model is TorchScript, which PyTorch does not export\n\n"
        "hint: pass the module from which `torch.jit.script` or `torch.jit.trace` made it"
    )


class Loader(Iterable[object]):
    """Batches that count how often they are begun."""

    begun = 0

    def __iter__(self) -> Iterator[object]:
        self.begun += 1
        return iter([GOOD] * 3)


def test_a_loader_begins_once_for_its_checks_and_its_first_use():
    loader = Loader()
    batches = check_early(loader, EXAMPLE)
    head, batches = begun(batches, 2)
    assert (len(head), len(list(batches)), loader.begun) == (2, 3, 1)
    assert (len(list(batches)), loader.begun) == (3, 2)


FLOAT32 = "hint: quantization starts from float32: convert the model and its inputs with `.float()`"
QUANTIZED = "hint: pass the float model: a build quantizes it"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: nn.Linear(2, 2, device="meta"),
            "the parameter `weight` of the model is on the device `meta`, and has no values\n\n"
            "hint: load its values on the device `cpu`",
        ),
        (lambda: nn.Linear(2, 2).half(), f"the parameter `weight` of the model is float16; use float32\n\n{FLOAT32}"),
        (lambda: nn.Linear(2, 2).double(), f"the parameter `weight` of the model is float64; use float32\n\n{FLOAT32}"),
        (
            lambda: torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(2, 2)), {nn.Linear}),
            "`0` of the model is quantized already: `torch.ao.nn.quantized.dynamic.modules.linear.Linear`\n\n"
            f"{QUANTIZED}",
        ),
    ],
)
def test_weights_without_float32_values_are_refused(make: Callable[[], nn.Module], text: str):
    with pytest.raises(InputError) as caught:
        check_module(make())
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            torch.ones(1, 2, device="meta"),
            "example input 0 is on the device `meta`, and has no values\n\nhint: make it on the device `cpu`",
        ),
        (
            torch.quantize_per_tensor(torch.ones(1, 2), 0.1, 0, torch.qint8),
            f"example input 0 is quantized already\n\n{QUANTIZED}",
        ),
        (
            torch.ones(1, 2).to_sparse(),
            "example input 0 has the layout `sparse_coo`\n\nhint: convert it with `.to_dense()`",
        ),
    ],
)
def test_example_inputs_without_plain_values_are_refused(value: torch.Tensor, text: str):
    with pytest.raises(InputError) as caught:
        check_example_inputs((value,))
    assert str(caught.value) == text


def test_batches_pass_through_in_order_and_numpy_arrays_become_tensors():
    arrays = (np.full((1, 3, 4, 4), 2, np.float32), np.ones(1, np.int64))
    batches = list(check_calibration([GOOD, list(GOOD), arrays], EXAMPLE))
    assert [float(x.max()) for x, _ in batches] == [1, 1, 2]


def test_batches_are_checked_only_when_they_are_used():
    def batches():
        yield GOOD
        raise AssertionError("asked for too early")

    assert next(check_calibration(batches(), EXAMPLE))[0].shape == (1, 3, 4, 4)


@pytest.mark.parametrize(
    "batches",
    [
        [torch.arange(4.0).reshape(4, 1, 1)],
        torch.arange(4.0).reshape(4, 1, 1),
        np.arange(4, dtype=np.float32).reshape(4, 1, 1),
        torch.arange(4.0).reshape(4, 1, 1, 1),
        [torch.arange(3.0).reshape(3, 1, 1), torch.full((1, 1, 1), 3.0)],
        [(np.arange(4, dtype=np.float32).reshape(4, 1, 1),)],
    ],
    ids=["a batch", "a tensor", "an array", "a tensor of batches", "batches", "a batch in a tuple"],
)
def test_a_batch_of_several_samples_is_taken_apart(batches: Iterable[object]):
    samples = list(check_calibration(batches, (torch.zeros(1, 1, 1),)))
    assert [(x.shape, float(x)) for (x,) in samples] == [((1, 1, 1), i) for i in range(4)]


def test_what_makes_batches_one_by_one_is_asked_for_the_first_early_and_loses_none():
    asked: list[int] = []

    def batches() -> Iterator[object]:
        for i in range(3):
            asked.append(i)
            yield torch.full((1, 2), float(i))

    checked = check_early(batches(), (torch.zeros(1, 2),))
    assert asked == [0]
    assert [float(x[0, 0]) for (x,) in check_calibration(checked, (torch.zeros(1, 2),))] == [0, 1, 2]


def test_a_list_is_checked_early_to_its_end():
    with pytest.raises(InputError, match="calibration batch 2, input 0 has shape"):
        check_early([torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 3)], (torch.zeros(1, 2),))


NAN = torch.ones(1, 3, 4, 4)
NAN[0, 0, 0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        (
            GOOD[:1],
            "calibration batch 1 has 1 input, the model takes 2\n\n"
            "hint: each batch is a tensor or a tuple with one tensor per argument of `forward`",
        ),
        (
            (*GOOD, torch.zeros(1)),
            "calibration batch 1 has 3 inputs, the model takes 2\n\n"
            "hint: leave out the labels of a data set: `[(x0, x1) for x0, x1, y in loader]`",
        ),
        ((GOOD[0], 3), "calibration batch 1, input 1 is of type `int`, not a tensor"),
        (
            (torch.ones(8, 3, 4, 4), GOOD[1]),
            "calibration batch 1, input 0 has shape [8, 3, 4, 4], the example input has [1, 3, 4, 4]\n\n"
            "hint: shapes are fixed when compiling; split or reshape the calibration data to the example's shape",
        ),
        (
            (GOOD[0].double(), GOOD[1]),
            "calibration batch 1, input 0 has dtype torch.float64, the example input has torch.float32\n\n"
            "hint: give it as `.to(torch.float32)`",
        ),
        (
            (GOOD[0], GOOD[1].float()),
            "calibration batch 1, input 1 has dtype torch.float32, the example input has torch.int64\n\n"
            "hint: give the example input as `.to(torch.float32)`",
        ),
        (
            (NAN, GOOD[1]),
            "calibration batch 1, input 0 holds 3 of 48 values that are NaN or infinite\n\n"
            "hint: remove or repair these samples; ranges measured from them would be meaningless",
        ),
    ],
)
def test_a_batch_that_does_not_fit(batch: object, text: str):
    with pytest.raises(InputError) as caught:
        list(check_calibration([GOOD, batch], EXAMPLE))
    assert str(caught.value) == text


def test_no_batches():
    with pytest.raises(InputError) as caught:
        list(check_calibration([], EXAMPLE))
    assert str(caught.value) == (
        "the calibration data holds no batches\n\n"
        "hint: give a few dozen representative inputs: the ranges of all tensors come from them"
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_an_example_input_that_is_not_float32(dtype: torch.dtype):
    with pytest.raises(InputError) as caught:
        check_example_inputs((EXAMPLE[0], torch.zeros(1, dtype=dtype)))
    assert str(caught.value) == (
        f"example input 1 is {str(dtype).partition('.')[2]}; use float32\n\n"
        "hint: quantization starts from float32: convert the model and its inputs with `.float()`"
    )


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.parametrize("module", [Doubled(), nn.ReLU(), fx.symbolic_trace(Doubled())])
def test_an_example_input_is_refused_at_the_line_of_forward(module: nn.Module):
    with pytest.raises(InputError) as caught:
        check_example_inputs((torch.zeros(1, dtype=torch.float64),), module)
    line = Doubled.forward.__code__.co_firstlineno
    assert caught.value.where == (f"{__file__}:{line}" if isinstance(module, Doubled) else None)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_bools_may_be_example_inputs(dtype: torch.dtype):
    inputs = (torch.zeros(1, dtype=dtype),)
    assert check_example_inputs(inputs) == inputs


def test_a_dict_of_example_inputs_is_to_be_a_tuple():
    with pytest.raises(InputError) as caught:
        check_example_inputs({"x": GOOD[0], "y": GOOD[0]})
    assert str(caught.value) == (
        "the example inputs are a dict\n\nhint: give a tuple of its tensors in the order of `forward`'s arguments"
    )
    with pytest.raises(InputError) as caught:
        list(check_calibration([{"x": GOOD[0]}], GOOD[:1]))
    assert str(caught.value) == (
        "calibration batch 0 is a dict\n\nhint: give a tuple of its tensors in the order of `forward`'s arguments"
    )


def test_a_dict_as_an_example_input_needs_a_module_that_makes_it():
    with pytest.raises(InputError) as caught:
        check_example_inputs((GOOD[0], {"acc": GOOD[0], "gyr x": GOOD[0]}))
    assert caught.value.hint == (
        "a program has one tensor per input: give the build a module whose `forward` takes each tensor as an argument "
        "and makes the dict, such as `forward(self, a, b)` with `return self.model({'acc': a, 'gyr x': b})`"
    )


@pytest.mark.parametrize("nested", [(GOOD[0], GOOD[0]), [GOOD[0]]], ids=["tuple", "list"])
def test_nested_inputs_need_a_module_that_nests_them(nested: object):
    with pytest.raises(InputError) as caught:
        check_example_inputs((GOOD[0], nested))
    assert str(caught.value).startswith(f"example input 1 is of type `{type(nested).__name__}`, not a tensor")
    assert "`return self.model(x, (h, c))`" in str(caught.value)
