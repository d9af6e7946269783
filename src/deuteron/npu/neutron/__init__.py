"""Neutron-C: from TFLite to microcode, and a model of the machine."""
