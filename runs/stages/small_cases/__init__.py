"""Small cases of runs: the method of a run, with its options, on tiny fixed data.

Their outcomes show whether code that was edited still gives the same results. Editing these modules may change the
outcomes themselves; export the shipped record again before the code of its runs is edited.
"""
