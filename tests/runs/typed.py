"""What is typed: lists of `key=value`."""


def latest(*typed):
    """Of what is typed the last of a key counts."""
    return list({item.partition("=")[0]: item for item in typed}.values())


def without(typed, *keys):
    return [item for item in typed if item.partition("=")[0] not in keys]


def as_experiment(path, *typed):
    """A file of an experiment that says the same."""
    path.write_text("".join(item.replace("=", ": ", 1) + "\n" for item in typed))
    return path
