"""How the processes of a group and the engine reach each other, and what they send."""
