"""Profiles of builds: runs on the host, the simulator and boards, joined with what the build knows of itself."""
