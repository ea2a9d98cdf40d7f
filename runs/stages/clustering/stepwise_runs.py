"""A method that learns features in steps, as one run in the record with live curves."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from clustering.foundation.progress import quiet
from runs.stages.clustering.feature_maps import points_of_map, with_map
from runs.stages.clustering.learned_methods import keep_method
from runs.stages.clustering.learning_run import NETWORK, Learned, LearningRun, LearningStage, watched_scores
from runs.stages.clustering.results import Trials
from runs.stages.clustering.trials import fit_all, known_coarse, told_points
from runs.stages.points import Points, Problem
from runs.stages.stage import Workspace


@dataclass(frozen=True)
class StepwiseStage(LearningStage):
    """One training of a method that learns features in steps."""

    remedy = "another penalty, more labels, or bounds nearer to the sizes that you expect"

    def learn(
        self, learning: LearningRun, problem: Problem, prepared: Points, work: Workspace
    ) -> tuple[Trials, Learned]:
        clusters, known, (data, graphs), fitted = problem.clusters, problem.known, prepared, list[Any]()
        config, folder, labels = self.config, learning.folder, None if known is None else known.labels
        told = told_points(known, known_coarse(config, data, known))
        mapped = points_of_map(config, told, data.values.shape[0])
        steps = config.method.build().set_params(n_clusters=clusters).planned_steps(labels)
        with work.store.watched(), work.progress.track(f"training {self.name}", steps) as advance:
            watch = {"log": learning, "observe": watched_scores(data, known), "advance": advance, "folder": folder}
            trials = fit_all(
                config, None, data, known, graphs, clusters, quiet, self.name, given=watch, take=fitted.append
            )
        (model,) = fitted
        trials = dataclasses.replace(trials, seconds=trials.seconds + np.array([0.0, 0.0, learning.before]))
        with work.store.watched():
            keep_method(folder / NETWORK, model, config.method.plugin)
        features = torch.from_numpy(model.transform(data.values)).float()
        learned = Learned(features, model.labels_, told)
        return with_map(trials, learned, mapped, data.labels, config.seed), learned

    def report(self, content: Trials, work: Workspace) -> None:
        super().report(content, work)
        work.progress.note(
            f"learned method: {work.store.cache(self.kind) / self.key / NETWORK} (runs.stages.clustering."
            "learned_methods.learned_method of this file clusters other points)"
        )
