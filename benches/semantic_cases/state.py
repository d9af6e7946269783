from semantic_cases.case import Cases
CASES = Cases("state")
