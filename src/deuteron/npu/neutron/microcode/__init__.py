"""The container of a converted partition and its command stream: encode, decode, disassemble."""
