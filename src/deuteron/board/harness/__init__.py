"""Host side of the harness (`spec/harness.md`): runs programs on boards over a serial line."""
