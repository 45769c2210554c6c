"""What a document holds: nodes, edges, annotations and definitions, as frozen values and ops."""
