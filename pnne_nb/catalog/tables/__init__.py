"""What torch does not say of itself, and is written down here."""
