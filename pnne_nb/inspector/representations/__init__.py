"""What layers make of the data: compared with another model or example, projected onto a plane, and read out as answers."""
