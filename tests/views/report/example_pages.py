"""The profile made by hand that the tests of profiles use, with memories and sizes, and one whose names are attacks."""

from dataclasses import replace

from tests.views.profile.example_profile import CONV
from tests.views.profile.example_profile import profile as plain_profile

from deuteron.views.events.record import Block, LayerLoss, Memory, Profile, Quality, Section, Source

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "\"'><svg onload=window.hacked=1>",
    "${window.hacked = 1}",
    "<!--",
    "نموذج الشبكة",
    "模型🙂é",
    "long" * 5000,
)
"""Names that a page must show as they are."""


def profile() -> Profile:
    """Two kernels, a fetch, a wait and a CPU operator; two tensors in a memory; two sizes."""
    made = plain_profile()
    blocks = (Block("a", 0, 600, 0, 1), Block("b", 600, 200, 1, 1))
    memory = Memory("scratch", 1000, 800, blocks)
    layer = LayerLoss("aten::relu", "relu", 42.1, 37.04, (CONV,))
    return replace(
        made,
        partitions=(replace(made.partitions[0], memories=(memory,)),),
        sections=(Section("kernels", "conv2d_s8", 2382), Section("driver", "", 3538)),
        quality=Quality("figure, on 20 samples, of program", ("output 0: 37.0 dB",), (layer,)),
    )


def hostile(name: str) -> Profile:
    """The profile with this name for everything that has one."""
    made = profile()
    source = Source(name, 7, name, name)
    (partition,) = made.partitions
    partition = replace(
        partition,
        ops=tuple(replace(op, name=name, nodes=(name,), sources=(source,)) for op in partition.ops),
        kernels=tuple(replace(kernel, name=name, output=(name,)) for kernel in partition.kernels),
        memories=tuple(
            replace(memory, name=name, blocks=tuple(replace(block, name=name) for block in memory.blocks))
            for memory in partition.memories
        ),
    )
    events = tuple(replace(event, name=name) for event in made.stream.events)
    return replace(
        made,
        model=name,
        target=name,
        on=name,
        versions={name: name},
        options={name: name},
        files={name: name},
        stream=replace(made.stream, events=events),
        partitions=(partition,),
        cpu_ops=tuple(replace(op, name=name, node=name, sources=(source,), why=name) for op in made.cpu_ops),
        sections=(Section(name, name, 1),),
        quality=Quality(name, (name,), (LayerLoss(name, name, 1.0, 2.0, (source,)),)),
    )
