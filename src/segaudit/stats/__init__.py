"""Statistics: arrays in, small frozen results out."""
