"""Facts about upstream that belong neither to the roles nor to the lab: `upstream.lock` and its readers."""
