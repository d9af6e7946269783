"""Parameter records of the CPU operators: neutral data that the compiler, boards and host share."""
