"""TFLite flatbuffers: read into the IR, written from it, and wrapped around converted microcode."""
