"""The compiled ``nn.Module``: how it is made, pickled, called, and explained."""
