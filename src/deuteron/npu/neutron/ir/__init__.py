"""The intermediate representation: tensors, operators, graphs; their text form, rules and meaning."""
