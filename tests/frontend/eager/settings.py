"""Variables of a module that a network counts in."""

COUNT = 0
