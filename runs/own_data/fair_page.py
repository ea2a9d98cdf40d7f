"""The page about a user's own table with fair clusters, for readers without knowledge of statistics."""

import numpy as np

from runs.own_data.fair_change import NOTICED, Change, FairFound
from runs.own_data.fair_words import between, farther, of_hundred, weight_name
from runs.own_data.group_words import number, percent
from runs.own_data.table_columns import TableColumns
from runs.report.rendering import environment


def fair_page(found: FairFound) -> str:
    """Render the page as self-contained HTML."""
    change = Change(found)
    steps = change.steps()
    chosen = steps[found.chosen]
    clusters = change.clusters()
    worst = change.worst(after=False)
    return (
        environment()
        .get_template("fair_table.html")
        .render(
            found=found,
            name=found.contents.file.path.name,
            columns=found.contents.columns,
            table_columns=TableColumns.of(found.contents),
            rows=change.rows,
            whole=change.whole,
            asked=change.asked,
            clusters=clusters,
            lost=found.clusters - len(clusters),
            worst=worst,
            left=change.worst(after=True),
            lacked=change.lacking(after=False),
            lacking=change.lacking(after=True),
            too_rare=change.too_rare(),
            reachable=change.reachable,
            steps=steps,
            chosen=chosen,
            already=abs(worst.before - worst.wanted) <= NOTICED,
            level=change.worst(after=True).left <= NOTICED,
            less=change.less(steps),
            cheaper=change.cheaper(steps),
            more=change.more(steps),
            weighted=not np.isnan(found.weights[-1]),
            distances=change.distances(),
            both=[own.column for own in found.attributes if own.column in found.contents.columns],
            of_hundred=of_hundred,
            between=between,
            farther=farther,
            weight_name=weight_name,
            number=number,
            percent=percent,
        )
    )
