FUNCTIONS: dict[str, int]
OPERATIONS: dict[str, int]
