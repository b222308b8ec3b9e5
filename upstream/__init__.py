"""Facts about the outside world that neither the roles nor the lab own: `upstream.lock` and what reads it."""
