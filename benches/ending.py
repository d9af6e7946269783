"""How a bench ends: results as JSON where they are wanted, and what is wrong with them on stderr."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def finish(data: Mapping[str, object], problems: Sequence[str], file: Path | None) -> int:
    """The exit status: 1 when there are problems."""
    if file is not None:
        file.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0
