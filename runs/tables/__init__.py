"""Tables regenerated from the record of runs."""
