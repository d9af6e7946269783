"""How far the quantised model is from the float model, and what is wrong with it where it is far."""
