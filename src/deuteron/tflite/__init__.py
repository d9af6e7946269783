"""TFLite flatbuffers as plain values: read, written and rewritten, whichever target they are for."""
