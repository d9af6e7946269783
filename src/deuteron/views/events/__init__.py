"""Where the time of a run went: events of the host, the simulator and boards in one form, mapped to the model."""
