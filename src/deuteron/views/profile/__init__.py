"""Profiles of builds: runs on the host, the simulator and boards, joined with the build's data."""
