"""Events of the host, the simulator and boards in one form, mapped to the model."""
