"""Tables of facts about torch that torch itself does not tell."""
