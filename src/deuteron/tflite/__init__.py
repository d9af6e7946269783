"""Reads, writes and rewrites TFLite flatbuffers, independent of targets."""
