"""What if: models, targets, memories and clocks in all combinations, evaluated on one computer or many."""
