"""What events of ExecuTorch call a kernel call."""


def event_name(kernel: str, index: int) -> str:
    """The name of call `index` of a partition, unlike that of any other call in it."""
    return f"{kernel} #{index}"
