"""What the editor in the browser and Python say to each other."""
