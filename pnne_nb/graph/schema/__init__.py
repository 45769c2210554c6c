"""What node types are: ports, properties, their types and values, and the registry of all of them."""
