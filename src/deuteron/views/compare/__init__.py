"""A build beside what it should equal."""
