"""Turns a model of a whole window of frames into one of a few new frames, which keeps what it needs of earlier ones."""
