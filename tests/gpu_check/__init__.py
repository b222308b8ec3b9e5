"""Compares what the collection claims about GPUs with the GPUs of this machine. Changes nothing on it."""
