"""One site's run from extract to report: what it was told, what it left, and what may leave of it."""
