"""The depot: packages and images, built from their sources and served the way their upstreams serve them."""
