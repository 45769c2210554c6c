"""The proof of a written file: its runtime runs it in a fresh process, and every node is compared with the model."""
