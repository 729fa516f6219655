"""The subcommands of `tdrop`, grouped by what they are for. Heavy packages are imported when one runs."""
