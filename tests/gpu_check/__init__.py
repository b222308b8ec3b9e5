"""Compare what the collection reports about GPUs with the GPUs of this machine, without changing anything on it."""
