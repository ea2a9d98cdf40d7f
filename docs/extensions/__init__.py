"""Parts of the documentation site that are made from the code while it is built."""
