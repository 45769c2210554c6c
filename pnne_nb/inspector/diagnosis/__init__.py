"""Rules that find what is wrong with a training, from measurements."""
