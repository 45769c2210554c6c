"""What the lessons in ``notebooks/lessons`` need: exercises that check themselves, with their answers out of sight."""
