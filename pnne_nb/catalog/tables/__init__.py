"""Tables of facts about torch that cannot be read from torch."""
