"""Names in events of ExecuTorch: of kernel calls and of operators."""


def event_name(kernel: str, index: int) -> str:
    """The name of call `index` of a partition, unlike that of any other call in it."""
    return f"{kernel} #{index}"


def base_name(operator: str) -> str:
    """An operator's name without namespace, which some events leave out, and overload, which lowering changes."""
    return operator.rpartition("::")[2].partition(".")[0]
