"""Hardware as data: chips and their NPUs, read from TOML presets."""
