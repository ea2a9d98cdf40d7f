"""What a record holds, whatever became of it."""


def runs_of(tracker, experiment):
    """All runs of an experiment that were not deleted."""
    found = tracker.client.get_experiment_by_name(experiment)
    return tracker.client.search_runs([found.experiment_id]) if found else []
