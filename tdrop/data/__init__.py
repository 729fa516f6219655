"""From an extract to a cohort: read, harmonise, encode; and the outcomes, kept apart."""
