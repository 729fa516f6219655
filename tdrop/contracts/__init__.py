"""What an extract must look like (tables), where it comes from (sites), and whether it holds (validation)."""
