"""Below `$TDROP_HOME`: where things lie, how finished stages are kept, and who works on them."""
