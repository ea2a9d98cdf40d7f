"""Arrays as users have them: tensors, tables of Arrow, large integers, lists with gaps, columns of files."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from PIL import Image

from clustering import SLK, KMeans, metrics
from clustering.datasets.folder import Folder
from clustering.foundation.errors import InputError
from clustering.foundation.streams import seed_of
from fairness import FairKMeans
from fsl.backbones.names import has_packaged
from fsl.few_shot_classifier import FewShotClassifier
from fsl.transductive_classifier import TransductiveClassifier

Y = np.repeat([0, 1, 2], 20)
X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32) + 6 * Y[:, None].astype(np.float32)
FORMS = {
    "with gradient": lambda: torch.tensor(X).requires_grad_(),
    "bfloat16": lambda: torch.tensor(X).bfloat16(),
    "Arrow": lambda: pa.table({str(i): X[:, i] for i in range(4)}),
    "frame": lambda: pd.DataFrame(X, columns=list("abcd")),
    "list": X.tolist,
    "list of tensors": lambda: list(torch.tensor(X).bfloat16().requires_grad_()),
    "column of lists": lambda: pd.Series(list(X)),
    "frame of lists": lambda: pd.DataFrame({"embedding": list(X)}),
    "Arrow table of lists": lambda: pa.table({"embedding": X.tolist()}),
    "column of tensors": lambda: pd.Series(list(torch.tensor(X).requires_grad_())),
    "masked": lambda: np.ma.masked_array(X, mask=np.zeros(X.shape)),
    "structured": lambda: pd.DataFrame(X, columns=list("abcd")).to_records(index=False),
    "structured and masked": lambda: np.ma.array(pd.DataFrame(X, columns=list("abcd")).to_records(index=False)),
    "Arrow lists": lambda: pa.chunked_array([X.tolist()]),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_points(form):
    points = FORMS[form]()
    for model in (SLK(3, n_init=4, random_state=0), KMeans(3, random_state=0)):
        assert metrics.accuracy(Y, model.fit(points).labels_) == 1
    assert metrics.accuracy(Y, FairKMeans(3, fairness_weight=0.0, n_init=1, random_state=0).fit(points).labels_) == 1
    few = TransductiveClassifier().fit(points, np.where(np.arange(60) % 20 < 2, Y, -1))
    assert (few.transduction_ == Y).all()


def test_integers_that_float32_cannot_hold_keep_their_digits():
    times = np.r_[np.arange(50), 10_000 + np.arange(50)][:, None] + 1_700_000_000_000
    assert metrics.accuracy(np.repeat([0, 1], 50), KMeans(2, random_state=0).fit(times).labels_) == 1
    frame = pd.DataFrame({"time": pd.array(times[:, 0], dtype="Int64")})
    for form in (frame, times.astype(object), times.astype(str), times.astype(np.longdouble), (times + 0.5).tolist()):
        assert metrics.accuracy(np.repeat([0, 1], 50), KMeans(2, random_state=0).fit(form).labels_) == 1
    assert metrics.silhouette(times, np.repeat([0, 1], 50)) > 0.99


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, ""])
def test_gaps_in_a_list_of_names_are_no_class(missing):
    names = np.array(["ant", "bee", "cat"])
    labels = [names[y] if i % 20 < 2 else missing for i, y in enumerate(Y)]
    labels[0] = str(labels[0])  # beside np.str_
    model = TransductiveClassifier().fit(X, labels)
    assert list(model.classes_) == list(names)
    assert (model.transduction_ == names[Y]).all()
    if not isinstance(missing, str):
        with pytest.raises((InputError, ValueError)):
            FewShotClassifier().fit(X, labels)
        with pytest.raises(InputError, match="several types"):
            metrics.nmi(labels, Y)


def test_the_text_that_numpy_makes_of_nan_is_no_class():
    names = np.array(["ant", "bee", "cat"])[Y]
    few = np.array([name if i % 20 < 2 else np.nan for i, name in enumerate(names)])
    assert (TransductiveClassifier().fit(X, few).transduction_ == names).all()
    for use in (
        lambda: FewShotClassifier().fit(X, few),
        lambda: metrics.nmi(few, Y),
        lambda: FairKMeans(3).fit(X, sensitive_features=few),
        lambda: FewShotClassifier().fit(class_names=["ant", float("nan")], text=np.eye(2)),
    ):
        with pytest.raises(InputError, match=r"nan in row 2|name 2 of 2 is empty"):
            use()


GAPS = np.arange(60) % 20 >= 2
WITH_GAPS = {
    "masked": np.ma.masked_array(Y, mask=GAPS),
    "Arrow": pa.array(Y, mask=GAPS),
    "Int64 above 2^53": pd.Series(Y + 2**60, dtype="Int64").mask(GAPS),
    "list of tensors": [None if gap else torch.tensor(y) for y, gap in zip(Y, GAPS, strict=True)],
    "dates": np.where(GAPS, np.datetime64("NaT"), np.datetime64("2020-01-01") + Y),
    "strings": np.array(
        [np.nan if gap else str(y) for y, gap in zip(Y, GAPS, strict=True)], np.dtypes.StringDType(na_object=np.nan)
    ),
}


@pytest.mark.parametrize("form", WITH_GAPS)
def test_gaps_of_every_form_are_unknown_or_refused(form):
    labels = WITH_GAPS[form]
    model = TransductiveClassifier().fit(X, labels)
    assert (model.classes_.searchsorted(model.transduction_) == Y).all()
    for use in (
        lambda: metrics.accuracy(labels, Y),
        lambda: FairKMeans(3).fit(X, sensitive_features=labels),
        lambda: FairKMeans(3).fit(X, sensitive_features={"group": labels}),
        lambda: FewShotClassifier().fit(X, labels),
    ):
        with pytest.raises(ValueError, match=r"NaN|no label|no value|types|missing|Unknown label"):
            use()


def test_gaps_of_points_and_equal_names_are_refused():
    holes = np.ma.masked_array(X, mask=np.eye(60, 4))
    named = np.genfromtxt(["a,b", *(f"{i},{i or ''}" for i in range(60))], delimiter=",", names=True, usemask=True)
    for use in (lambda: KMeans(3).fit(holes), lambda: KMeans(3).fit(named), lambda: metrics.silhouette(holes, Y)):
        with pytest.raises(ValueError, match="NaN"):
            use()
    with pytest.raises(InputError, match="two columns are called 'a'"):
        KMeans(3).fit(pd.DataFrame(X, columns=list("abca")))
    with pytest.raises(InputError, match="dates"):
        metrics.silhouette(np.datetime64("2020-01-01") + Y[:, None], Y)


def test_base_means_are_taken_by_name():
    frame = pd.DataFrame(X, columns=list("abcd"))
    fits = [FewShotClassifier(base_mean=mean).fit(frame, Y) for mean in (frame.mean(), frame.mean()[::-1])]
    np.testing.assert_array_equal(fits[0].base_mean_, fits[1].base_mean_)
    twice = pd.concat([frame.mean(), frame.mean()])
    with pytest.raises(InputError, match="base_mean"):
        FewShotClassifier(base_mean=twice).fit(frame, Y)


def test_labels_in_a_list_of_tensors_or_in_categories():
    for labels in (list(torch.tensor(Y)), pd.Series(Y).astype("category")):
        assert len(FewShotClassifier().fit(X, labels).classes_) == 3
        assert metrics.accuracy(Y, labels) == 1
        assert len(FairKMeans(3, n_init=1, fairness_weight=0.0).fit(X, sensitive_features=labels).group_counts_) == 3


def test_generators_of_numpy_are_seeds():
    first, second = (SLK(3, n_init=2, random_state=np.random.default_rng(0)).fit(X).labels_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(InputError, match="random_state"):
        seed_of("0")


@pytest.mark.skipif(not has_packaged(), reason="the weights are not installed: transduce[pictures]")
def test_columns_of_files_are_seen_as_pictures(tmp_path):
    files = [str(tmp_path / f"{number}.png") for number in range(4)]
    for number, file in enumerate(files):
        Image.new("L", (8, 8), 60 * number).save(file)
    assert FewShotClassifier().fit(pd.Series(files), ["a", "a", "b", "b"]).n_features_in_ == 1280


def test_pictures_of_fractions_are_not_black(tmp_path):
    for name in ("a", "b"):
        Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)).save(tmp_path / f"{name}.tif")
    with pytest.raises(InputError, match=r"fractions.*8 or 16 bits"):
        Folder(root=str(tmp_path)).read()
