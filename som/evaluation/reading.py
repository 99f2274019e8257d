"""Reading times: how much better a measure, such as surprisal, makes a regression predict them.

The times of a table, one word or region a row in the order of reading, are regressed on what is known to matter
(length, frequency, punctuation, position) and once more on that and the measure, each with the values of the words
before in the sentence (spillover). Both regressions are fitted on some groups, such as stories, and tried on the
others. ΔLL is how much more log-likelihood, in nats, the second gives to the times that it has not seen.
"""

from __future__ import annotations

import csv
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from rich.table import Table

from som.evaluation.display import table_of_numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = np.ndarray[Any, np.dtype[np.float64]]
# what `som surprisal` says of a word that may slow readers; depth is open + 1
KNOWN_MEASURES = (
    "surprisal",
    "structural",
    "lexical",
    "entropy_before",
    "entropy_after",
    "next_entropy",
    "entropy_reduction",
    "closed",
    "opened",
    "open",
)
MISSING = ("NA", "NaN", "nan")  # what other programs write for numbers that are not there
COLLINEAR = 1e-10  # smallest eigenvalue of a correlation matrix below which a predictor counts as a sum of others
SIGNS = 4_000_000  # drawn at a time


@dataclass(frozen=True)
class ReadingSettings:
    """The columns of a table, by what they are, and how the regression is done."""

    time: str = "time"
    group: str = "story"  # folds are made of whole groups
    sentence: str = "sentence_id"  # within a group; spillover stays inside
    subject: str | None = None  # has a random intercept; without, times are means over subjects
    word: str = "word"  # only for punctuation
    measures: Sequence[str] = ()  # columns, or several joined by +; none: those of `KNOWN_MEASURES` that the table has
    baseline: Sequence[str] = ("length", "log_frequency", "punctuation")  # with spillover
    controls: Sequence[str] = ("position",)  # without
    spillover: int = 2  # words before
    log: bool = True  # regress the logarithm of the time
    folds: int = 10  # at most: never more than groups
    permutations: int = 10_000
    seed: int = 0


# ---------------------------------------------------------------------------------------------- columns


def read_frame(file: str | Path) -> pd.DataFrame:
    """A table by the suffix of its file: .tsv, unquoted, .csv, .jsonl, each also .gz, or .parquet."""
    suffixes = [suffix.lower() for suffix in Path(file).suffixes if suffix.lower() != ".gz"]
    words: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}  # null is a word
    readers: dict[str, Callable[[Any], pd.DataFrame]] = {
        ".tsv": partial(pd.read_csv, sep="\t", quoting=csv.QUOTE_NONE, **words),
        ".csv": partial(pd.read_csv, **words),
        ".jsonl": partial(pd.read_json, lines=True, dtype=False),  # 01 is a name, and a time no date
        ".parquet": pd.read_parquet,
    }
    if not suffixes or suffixes[-1] not in readers:
        raise ValueError(f"{file}: expected a table that ends in {', '.join(readers)}")
    try:
        frame = readers[suffixes[-1]](file)
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{file}: expected a table, got: {str(error).partition(chr(10))[0]}") from error
    if frame.empty:
        raise ValueError(f"{file}: expected rows, found none")
    return frame


def number_column(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column as numbers, NaN where there is none; what is no number is an error that names its row."""
    given = text_column(frame, name)
    given = given.mask(given.isin(MISSING))
    numbers = pd.to_numeric(given, errors="coerce").astype(float)
    wrong = (numbers.isna() & given.notna()) | np.isinf(numbers)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"row {row + 1}: expected a number in column {name}, got {given.tolist()[row]!r}")
    return numbers


def text_column(frame: pd.DataFrame, name: str) -> pd.Series:
    if name not in frame:
        close = get_close_matches(name, list(map(str, frame)), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"expected a column {name}, the table has {', '.join(map(str, frame))}{hint}")
    return frame[name]


def predictor(frame: pd.DataFrame, name: str, settings: ReadingSettings) -> pd.Series:
    """A column of the table, or one of the two that are worked out where the table has none."""
    if name in frame or name not in ("punctuation", "position"):
        return number_column(frame, name)
    if name == "position":
        return (frame.groupby(sentence_keys(settings), sort=False).cumcount() + 1).astype(float)
    return text_column(frame, settings.word).map(has_punctuation).astype(float)


def has_punctuation(word: object) -> bool:
    """Whether a word as it was shown begins or ends with anything but a letter or digit.

    >>> [has_punctuation(word) for word in ("owners.", "“No", "don't", "well-known", "")]
    [True, True, False, False, False]
    """
    text = str(word)
    return bool(text) and not (text[0].isalnum() and text[-1].isalnum())


def sentence_keys(settings: ReadingSettings) -> list[str]:
    """The columns that together tell sentences apart."""
    keys = [settings.subject, settings.group, settings.sentence]
    return list(dict.fromkeys(key for key in keys if key is not None))


def sentence_columns(frame: pd.DataFrame, settings: ReadingSettings) -> list[pd.Series]:
    """These columns; every row must have a value in each, and the rows of a sentence must follow each other."""
    columns = [text_column(frame, key) for key in sentence_keys(settings)]
    for column in columns:
        if column.isna().any():
            raise ValueError(
                f"row {int(column.isna().argmax()) + 1}: expected a value in column {column.name}, got none"
            )
    numbers = frame.groupby(columns, sort=False).ngroup()
    readers = [] if settings.subject is None else [frame[settings.subject]]
    before = numbers.groupby(readers).shift() if readers else numbers.shift()
    again = (numbers != before) & numbers.duplicated()
    if again.any():
        row = int(again.argmax())
        where = ", ".join(f"{column.name} {column[row]}" for column in columns)
        raise ValueError(f"row {row + 1}: {where} was left and comes again: expected the rows of a sentence together")
    return columns


def with_spillover(columns: pd.DataFrame, sentences: Sequence[pd.Series], words: int) -> pd.DataFrame:
    """The columns, and those of so many words before in the sentence, NaN where it has no such word.

    >>> columns = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    >>> with_spillover(columns, [pd.Series([1, 1, 2])], 1)["x_1"].tolist()
    [nan, 1.0, nan]
    """
    groups = columns.groupby(list(sentences), sort=False)
    before = [groups.shift(back).add_suffix(f"_{back}") for back in range(1, words + 1)]
    for name in columns:
        if any(name in lagged for lagged in before):
            raise ValueError(f"column {name} would be there twice: spillover is worked out here, so leave it out")
    return pd.concat([columns, *before], axis=1)


# ---------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class ReadingData:
    """The rows that a regression can use, and what it regresses."""

    rows: pd.DataFrame  # what tells the rows apart: subject, group, sentence, position, word
    times: Numbers  # their logarithms if these are asked for
    baseline: pd.DataFrame
    measures: Mapping[str, pd.DataFrame]
    groups: np.ndarray
    subjects: np.ndarray | None
    left_out: Mapping[str, int]  # rows, by reason

    def predictors(self, measure: str | None = None) -> pd.DataFrame:
        return self.baseline if measure is None else pd.concat([self.baseline, self.measures[measure]], axis=1)


def reading_data(frame: pd.DataFrame, settings: ReadingSettings) -> ReadingData:
    """The complete rows of a table; all regressions are on the same ones, or they could not be compared."""
    frame, spillover = frame.reset_index(drop=True), settings.spillover
    times, sentences = time_column(frame, settings), sentence_columns(frame, settings)
    measures = {name: columns_of(frame, name) for name in settings.measures or default_measures(frame)}
    spilt = [*settings.baseline, *(one for names in measures.values() for one in names)]
    predictors = with_spillover(predictor_columns(frame, spilt, settings), sentences, spillover)
    controls = predictor_columns(frame, settings.controls, settings)
    position = (frame.groupby(sentences, sort=False).cumcount() + 1).rename("position")
    kept, left_out = complete(times, position, pd.concat([predictors, controls], axis=1), settings)
    shown = [frame[settings.word]] if settings.word in frame else []
    predictors = predictors[kept]
    return ReadingData(
        rows=pd.concat([*sentences, position, *shown], axis=1)[kept],
        times=times[kept].to_numpy(),
        baseline=pd.concat([lags(predictors, settings.baseline, spillover), controls[kept]], axis=1),
        measures={name: lags(predictors, names, spillover) for name, names in measures.items()},
        groups=frame.loc[kept, settings.group].to_numpy(),
        subjects=frame.loc[kept, settings.subject].to_numpy() if settings.subject else None,
        left_out=left_out,
    )


def columns_of(frame: pd.DataFrame, measure: str) -> list[str]:
    """The columns of a measure."""
    return [measure] if measure in frame else measure.split("+")


def predictor_columns(frame: pd.DataFrame, names: Sequence[str], settings: ReadingSettings) -> pd.DataFrame:
    return pd.DataFrame({name: predictor(frame, name, settings) for name in names}, index=frame.index)


def lags(predictors: pd.DataFrame, names: Sequence[str], spillover: int) -> pd.DataFrame:
    """Some of the predictors, each with its spillover."""
    before = [f"{name}_{back}" for name in names for back in range(1, spillover + 1)]
    return predictors[list(dict.fromkeys([*names, *before]))]


def time_column(frame: pd.DataFrame, settings: ReadingSettings) -> pd.Series:
    times = number_column(frame, settings.time)
    if not settings.log:
        return times
    if (times <= 0).any():
        row = int(np.flatnonzero(times <= 0)[0])
        raise ValueError(f"row {row + 1}: expected a time above 0 in column {settings.time}, got {times.iloc[row]:g}")
    return np.log(times)


def default_measures(frame: pd.DataFrame) -> list[str]:
    """The measures that the table has and that say anything: a constant one explains nothing."""
    found = [name for name in KNOWN_MEASURES if name in frame and frame[name].nunique() > 1]
    if not found:
        raise ValueError(f"the table has none of the measures {', '.join(KNOWN_MEASURES)}: name those that it has")
    return found


def complete(
    times: pd.Series, position: pd.Series, predictors: pd.DataFrame, settings: ReadingSettings
) -> tuple[pd.Series, dict[str, int]]:
    """Which rows have all that a regression needs, and why how many others have not."""
    timed, inside, known = times.notna(), position > settings.spillover, predictors.notna().all(axis=1)
    if not timed.any():
        raise ValueError(f"column {settings.time} is empty")
    if not (timed & inside).any():
        raise ValueError(f"no row with a time has {settings.spillover} words before it in its sentence")
    if empty := [name for name in predictors if predictors.loc[timed & inside, name].isna().all()]:
        raise ValueError(f"column {empty[0]} is empty where there are times: leave it out")
    reasons = {
        "no time": ~timed,
        "no words before for spillover": timed & ~inside,
        "no value of a predictor": timed & inside & ~known,
    }
    return timed & inside & known, {reason: int(rows.sum()) for reason, rows in reasons.items()}


# ---------------------------------------------------------------------------------------------- folds


def fold_numbers(groups: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each row: groups are dealt out in the order in which they come.

    >>> fold_numbers(np.array(["a", "a", "b", "c"]), folds=2).tolist()
    [0, 0, 1, 0]
    """
    numbers, names = pd.factorize(groups)
    return numbers % min(folds, len(names))


def checked(data: ReadingData, folds: np.ndarray, settings: ReadingSettings) -> ReadingData:
    """The data once every regression is known to be possible; a measure that nobody named is left out if it is not."""
    if len(np.unique(data.groups)) < 2:
        one = f", which is {data.groups[0]}" if len(data.groups) else ""
        raise ValueError(
            f"column {settings.group} has {len(np.unique(data.groups))} value in rows with times{one}: "
            "folds are whole groups, so at least 2 are needed"
        )
    check_regressions(data, None, folds, settings)
    possible = dict(data.measures)
    for measure in data.measures:
        try:
            check_regressions(data, measure, folds, settings)
        except ValueError as error:
            del possible[measure]
            if settings.measures or not possible:
                raise
            warnings.warn(f"not tried: {error}", stacklevel=2)
    return replace(data, measures=possible)


def check_regressions(data: ReadingData, measure: str | None, folds: np.ndarray, settings: ReadingSettings) -> None:
    """Validate that the regressions with a measure, or of the baseline alone, can be done without any one fold."""
    predictors = data.predictors(measure)
    for fold in np.unique(folds):
        check_rows(predictors[folds != fold], left_out_names(data, folds == fold, settings))
    check_predictors(predictors, measure, "")
    for fold in np.unique(folds):
        where = f" without {left_out_names(data, folds == fold, settings)}"
        check_predictors(predictors[folds != fold], measure, where)


def drop_constant_spillover(data: ReadingData, folds: np.ndarray, settings: ReadingSettings) -> ReadingData:
    """Without spillover that is the same in all rows of a fold's regression, where it explains nothing.

    Sentences on their own have a full stop at the end alone, so that no word has punctuation before it."""
    names = [*settings.baseline, *(one for name in data.measures for one in data.measures[name])]
    spilt = {f"{name}_{back}" for name in names for back in range(1, settings.spillover + 1)}

    def kept(predictors: pd.DataFrame) -> pd.DataFrame:
        return predictors[[name for name in predictors if name not in spilt or varies(predictors[name], folds)]]

    measures = {name: kept(predictors) for name, predictors in data.measures.items()}
    return replace(data, baseline=kept(data.baseline), measures=measures)


def varies(column: pd.Series, folds: np.ndarray) -> bool:
    """Whether a column is not constant, whatever fold is left out."""
    return all(column[folds != fold].nunique() > 1 for fold in np.unique(folds))


def left_out_names(data: ReadingData, held_out: np.ndarray, settings: ReadingSettings) -> str:
    names = [str(name) for name in pd.unique(data.groups[held_out])]
    return f"{settings.group} {', '.join(names[:3])}{' …' * (len(names) > 3)}"


def check_rows(predictors: pd.DataFrame, left_out: str) -> None:
    needed = predictors.shape[1] + 2  # an intercept, and something left for the variance
    if len(predictors) < needed:
        raise ValueError(f"{len(predictors)} rows are left without {left_out}: the regression needs at least {needed}")


def check_predictors(predictors: pd.DataFrame, measure: str | None, where: str) -> None:
    """Refuse predictors that are constant, or the weighted sum of others, in some rows."""
    what = "the baseline" if measure is None else f"measure {measure}"
    spread = predictors.max() - predictors.min()
    if (spread == 0).any():
        raise ValueError(f"{what}: column {spread.index[spread == 0][0]} is the same in all rows{where}: leave it out")
    if predictors.shape[1] > 1 and np.linalg.eigvalsh(np.corrcoef(predictors.to_numpy().T))[0] < COLLINEAR:
        others = "each other" if measure is None else "the baseline, or each other"
        raise ValueError(f"{what}: its columns are collinear with {others}{where}: leave one out")


# ---------------------------------------------------------------------------------------------- regression


class Fitted(NamedTuple):
    """A regression: coefficients, the intercept first, with standard errors, and what varies beside them."""

    coefficients: Numbers
    errors: Numbers
    noise: float  # variance of the residuals
    between: float = 0.0  # variance of the subjects' intercepts


def fit(times: Numbers, predictors: Numbers, subjects: np.ndarray | None = None) -> Fitted:
    """Least squares, or with subjects a mixed model that gives each an intercept, by maximum likelihood."""
    from statsmodels.regression.linear_model import OLS

    design = np.column_stack([np.ones(len(times)), predictors])
    if subjects is None:
        result = OLS(times, design).fit()
        return Fitted(result.params, result.bse, float(result.scale))
    return fit_mixed(times, design, subjects)


def fit_mixed(times: Numbers, design: Numbers, subjects: np.ndarray) -> Fitted:
    from statsmodels.regression.mixed_linear_model import MixedLM
    from statsmodels.tools.sm_exceptions import ConvergenceWarning

    with warnings.catch_warnings():  # said below, or no variance between subjects, which is fine
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = MixedLM(times, design, subjects).fit(reml=False)
    if not result.converged:
        raise ValueError("the mixed-effects regression did not converge: leave predictors out, or regress mean times")
    number = design.shape[1]
    return Fitted(result.fe_params, result.bse[:number], float(result.scale), float(result.cov_re[0, 0]))


def predict(
    fitted: Fitted, predictors: Numbers, offsets: Mapping[Any, tuple[float, float]], subjects: np.ndarray | None
) -> tuple[Numbers, Numbers]:
    """Mean and variance of each time; a subject that is not known yet has the mean intercept."""
    means = fitted.coefficients[0] + predictors @ fitted.coefficients[1:]
    if subjects is None:
        return means, np.full(len(means), fitted.noise)
    own = np.array([offsets.get(subject, (0.0, fitted.between)) for subject in subjects])  # (rows, 2)
    return means + own[:, 0], fitted.noise + own[:, 1]


def subject_offsets(fitted: Fitted, residuals: Numbers, subjects: np.ndarray) -> dict[Any, tuple[float, float]]:
    """Mean and variance of each subject's intercept, given what is left of the subject's times (their BLUP)."""
    found = {}
    for subject, left in pd.Series(residuals).groupby(subjects):
        weight = fitted.between / (len(left) * fitted.between + fitted.noise)
        found[subject] = (weight * left.sum(), weight * fitted.noise)
    return found


def held_out_log_likelihoods(
    times: Numbers, predictors: Numbers, folds: np.ndarray, subjects: np.ndarray | None = None
) -> Numbers:
    """Of each time, in nats, by the regression on all folds but its own."""
    result = np.empty(len(times))
    for fold in np.unique(folds):
        test, train = folds == fold, folds != fold
        seen, unseen = (None, None) if subjects is None else (subjects[train], subjects[test])
        fitted = fit(times[train], predictors[train], seen)
        means, _ = predict(fitted, predictors[train], {}, None)
        offsets = {} if seen is None else subject_offsets(fitted, times[train] - means, seen)
        means, variances = predict(fitted, predictors[test], offsets, unseen)
        result[test] = -0.5 * (np.log(2 * np.pi * variances) + (times[test] - means) ** 2 / variances)
    return result


# ---------------------------------------------------------------------------------------------- the test


def permutation_test(increments: Numbers, permutations: int, seed: int) -> float:
    """How often the increments of words, with signs drawn at random, sum to as much as they do or more: p, one-sided.

    A measure that says nothing still costs its coefficients, so a sum below zero is no evidence of anything.

    >>> permutation_test(np.ones(20), 999, seed=0), permutation_test(-np.ones(20), 999, seed=0)
    (0.001, 1.0)
    """
    generator, total = np.random.default_rng(seed), increments.sum()
    chunk = max(1, SIGNS // len(increments))
    as_large, left = 0, permutations
    while left:
        signs = generator.integers(0, 2, (min(chunk, left), len(increments)), dtype=np.int8)
        sums = 2 * (signs @ increments) - total
        as_large += int((sums >= total - 1e-9 * abs(total)).sum())
        left -= len(signs)
    return (1 + as_large) / (1 + permutations)


# ---------------------------------------------------------------------------------------------- the report


class Coefficient(NamedTuple):
    """Of a predictor, in a regression on all rows: change of the time, or of its logarithm, per unit."""

    value: float
    error: float


@dataclass(frozen=True)
class MeasureResult:
    """What a measure adds to the baseline."""

    increments: Numbers  # log-likelihood with it minus without, by row
    by_group: Mapping[str, float]  # per 1,000 words
    p: float
    coefficients: Mapping[str, Coefficient]

    @property
    def delta(self) -> float:
        """ΔLL per 1,000 words."""
        return 1000 * float(self.increments.mean())

    def to_json(self) -> dict[str, Any]:
        coefficients = {name: one._asdict() for name, one in self.coefficients.items()}
        return {"delta_ll_per_1000": self.delta, "p": self.p, "by_group": self.by_group, "coefficients": coefficients}


@dataclass(frozen=True)
class ReadingReport:
    """What each measure adds, on which rows."""

    settings: ReadingSettings
    rows: pd.DataFrame
    left_out: Mapping[str, int]
    folds: int
    predictors: Sequence[str]  # of the baseline
    log_likelihoods: Numbers  # of the baseline, by row
    measures: Mapping[str, MeasureResult]

    def to_json(self) -> dict[str, Any]:
        about = {name: getattr(self.settings, name) for name in ("time", "group", "sentence", "subject", "seed")}
        return {
            **about,
            "scale": "log" if self.settings.log else "raw",
            "spillover": self.settings.spillover,
            "permutations": self.settings.permutations,
            "folds": self.folds,
            "words": len(self.rows),
            "left_out": dict(self.left_out),
            "baseline": {
                "predictors": list(self.predictors),
                "ll_per_1000": 1000 * float(self.log_likelihoods.mean()),
            },
            "measures": {name: result.to_json() for name, result in self.measures.items()},
        }

    def increments(self) -> pd.DataFrame:
        """One row per word: where it stands in the table, the baseline's log-likelihood and what each measure adds."""
        numbers = pd.DataFrame({"row": self.rows.index + 1}, index=self.rows.index)
        values = {f"delta_{name}": result.increments for name, result in self.measures.items()}
        values = {"log_likelihood": self.log_likelihoods, **values}
        return pd.concat([numbers, self.rows, pd.DataFrame(values, index=self.rows.index)], axis=1)

    def __rich__(self) -> Table:
        """ΔLL of each measure, its p, in how many groups it helps, and the coefficients of measures of one column."""
        before = [f"{words} before" for words in range(1, self.settings.spillover + 1)]
        title = f"{'log ' * self.settings.log}{self.settings.time}, {len(self.rows):,} words, {self.folds} folds"
        table = table_of_numbers(title, "ΔLL per 1,000", "p", "helps in", "at word", *before)
        for name, result in self.measures.items():
            helped = sum(value > 0 for value in result.by_group.values())
            columns = [name, *(f"{name}_{back}" for back in range(1, self.settings.spillover + 1))]
            found = [result.coefficients.get(column) for column in columns]
            shown = ["–" if one is None else f"{one.value:+.2g}" for one in found]
            table.add_row(name, f"{result.delta:.2f}", f"{result.p:.4f}", f"{helped}/{len(result.by_group)}", *shown)
        left = [f"{number:,} with {reason}" for reason, number in self.left_out.items() if number]
        over = ", ".join(self.predictors) or "an intercept alone"
        table.caption = f"over {over}" + f"; rows left out: {', '.join(left)}" * bool(left)
        return table


def evaluate_reading(
    frame: pd.DataFrame, settings: ReadingSettings, progress: Callable[[], None] = lambda: None
) -> ReadingReport:
    """What each measure of a table adds to the prediction of its reading times; `progress` is called per measure."""
    data = reading_data(frame, settings)
    folds = fold_numbers(data.groups, settings.folds)
    data = drop_constant_spillover(data, folds, settings)
    data = checked(data, folds, settings)
    baseline = held_out_log_likelihoods(data.times, data.baseline.to_numpy(), folds, data.subjects)
    measures = {}
    for name in data.measures:
        measures[name] = measure_result(data, name, baseline, folds, settings)
        progress()
    return ReadingReport(
        settings,
        data.rows,
        data.left_out,
        len(np.unique(folds)),
        list(data.baseline),
        baseline,
        measures,
    )


def measure_result(
    data: ReadingData, name: str, baseline: Numbers, folds: np.ndarray, settings: ReadingSettings
) -> MeasureResult:
    predictors = data.predictors(name)
    log_likelihoods = held_out_log_likelihoods(data.times, predictors.to_numpy(), folds, data.subjects)
    increments = pd.Series(log_likelihoods - baseline, index=data.rows.index)
    words = data.rows[[column for column in data.rows if column != settings.subject]]
    of_words = increments.groupby([words[column] for column in words], sort=False, dropna=False).sum()
    fitted = fit(data.times, predictors.to_numpy(), data.subjects)
    own = predictors.columns.get_indexer(data.measures[name].columns) + 1
    pairs = zip(fitted.coefficients[own].tolist(), fitted.errors[own].tolist(), strict=True)
    return MeasureResult(
        increments.to_numpy(),
        {str(group): 1000 * float(mean) for group, mean in increments.groupby(data.groups, sort=False).mean().items()},
        permutation_test(of_words.to_numpy(), settings.permutations, settings.seed),
        {column: Coefficient(*pair) for column, pair in zip(data.measures[name], pairs, strict=True)},
    )


def reading_figure(report: ReadingReport) -> Figure:
    """ΔLL of each measure as a bar, with a dot for every group."""
    from matplotlib.figure import Figure

    names = list(report.measures)
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(names)), layout="constrained")
    axes = figure.subplots()
    for place, result in enumerate(report.measures.values()):
        axes.barh(place, result.delta, color="#c6d8e8")
        dots = list(result.by_group.values())
        axes.plot(dots, [place] * len(dots), "o", markersize=3, color="#1f3b5c", alpha=0.6)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(f"ΔLL per 1,000 words, in nats; dots: each {report.settings.group}", parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
