"""What a training is made of, checked and put in place before it starts."""
