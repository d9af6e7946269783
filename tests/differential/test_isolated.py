"""Crashes, hangs and plain results of a worker process; what it does after them."""

import os
import time

from tests.differential.check import Checked, Kind
from tests.differential.isolated import Worker


def work(item: str) -> Checked:
    match item:
        case "abort":
            os.abort()
        case "leave":
            os._exit(3)
        case "hang":
            time.sleep(1000)
    checked = Checked()
    checked.fail(Kind.DRIVER, item)
    return checked


def test_whatever_becomes_of_the_process_there_is_a_result() -> None:
    with Worker(work, seconds=5) as worker:
        for item, kind, text in (
            ("first", Kind.DRIVER, "first"),
            ("abort", Kind.CRASH, "the process ended with SIGABRT"),
            ("second", Kind.DRIVER, "second"),
            ("leave", Kind.CRASH, "the process ended with exit code 3"),
            ("hang", Kind.CRASH, "no end after 5 s"),
            ("third", Kind.DRIVER, "third"),
        ):
            (failure,) = worker.run(item).failures
            assert (failure.kind, failure.text) == (kind, text)
