"""Regressions of reading times: against statsmodels by hand, and on made-up data whose effect is known."""

import csv

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import norm

from som.evaluation import ReadingSettings, evaluate_reading, read_frame, reading_figure
from som.evaluation.reading import Fitted, fit, permutation_test, predict, reading_data, subject_offsets

WORDS = np.array(["the", "dog", "sees", "a", "cat,", "here."])
LAGS = (0.05, 0.03, 0.01)  # what one unit of `useful` adds to the log times of its word and of the two after it
FEW = {"permutations": 199}


def made_up(stories: int = 4, sentences: int = 12, subjects: int = 0, seed: int = 0) -> pd.DataFrame:
    """Times that depend on length, frequency and the measure `useful` of a word and of the two before."""
    rng = np.random.default_rng(seed)
    keys = [(story, sentence) for story in range(1, stories + 1) for sentence in range(1, sentences + 1)]
    words = [(*key, word) for key in keys for word in rng.permutation(WORDS)]
    frame = pd.DataFrame(words, columns=["story", "sentence_id", "word"])
    n = len(frame)
    frame["length"], frame["log_frequency"] = rng.integers(1, 12, n), rng.normal(3, 1, n)
    frame["useful"], frame["useless"] = rng.gamma(2, 3, n), rng.normal(size=n)
    before = frame.groupby(["story", "sentence_id"]).useful
    expected = 5.8 + 0.01 * frame.length - 0.02 * frame.log_frequency
    for back, weight in enumerate(LAGS):
        expected += weight * before.shift(back).fillna(0)
    if not subjects:
        return frame.assign(time=np.exp(expected + rng.normal(scale=0.05, size=n)))
    slow = rng.normal(scale=0.3, size=subjects)
    times = [np.exp(expected + own + rng.normal(scale=0.05, size=n)) for own in slow]
    return pd.concat([frame.assign(subject=f"s{i}", time=one) for i, one in enumerate(times)], ignore_index=True)


def with_lags(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Spillover in the slow and obvious way: row by row."""
    frame = frame.copy()
    for name in names:
        for back in (1, 2):
            column = []
            for i, row in frame.iterrows():
                same = i >= back and all(row[key] == frame.loc[i - back, key] for key in ("story", "sentence_id"))
                column.append(frame.loc[i - back, name] if same else np.nan)
            frame[f"{name}_{back}"] = column
    return frame


def test_delta_ll_is_that_of_the_same_regression_by_hand():
    frame = made_up()
    frame.loc[[10, 33], "time"] = np.nan
    report = evaluate_reading(frame, ReadingSettings(measures=["useful"], **FEW))
    hand = frame.assign(y=np.log(frame.time), punct=[float(word[-1] in ".,") for word in frame.word])
    hand["place"] = hand.groupby(["story", "sentence_id"]).cumcount() + 1
    names = ("length", "log_frequency", "punct", "useful")
    hand = with_lags(hand, *names).dropna()
    terms = [one for name in names for one in (name, f"{name}_1", f"{name}_2")]
    full, increments = f"y ~ place + {' + '.join(terms)}", pd.Series(0.0, hand.index)
    for story in hand.story.unique():
        train, test = hand[hand.story != story], hand[hand.story == story]
        for formula, sign in ((f"y ~ place + {' + '.join(terms[:-3])}", -1), (full, 1)):
            fitted = smf.ols(formula, train).fit()
            increments[test.index] += sign * norm.logpdf(test.y, fitted.predict(test), np.sqrt(fitted.scale))
    result, whole = report.measures["useful"], smf.ols(full, hand).fit()
    np.testing.assert_allclose(result.increments, increments, atol=1e-9)
    assert result.delta == pytest.approx(1000 * increments.mean())
    for name, one in result.coefficients.items():
        assert one == pytest.approx((whole.params[name], whole.bse[name]))
    by_story = {str(story): 1000 * increments[hand.story == story].mean() for story in hand.story.unique()}
    assert result.by_group == pytest.approx(by_story)
    assert report.left_out == {
        "no time": 2,
        "no words before for spillover": len(frame) // 3 - sum(i % 6 < 2 for i in (10, 33)),
        "no value of a predictor": 0,
    }


def test_a_known_effect_is_found_and_nothing_where_there_is_none():
    report = evaluate_reading(made_up(), ReadingSettings(measures=["useful", "useless", "useful+useless"], **FEW))
    useful, useless, both = report.measures.values()
    assert useful.delta > 500 and useful.p == 1 / 200
    assert [one.value for one in useful.coefficients.values()] == pytest.approx(LAGS, abs=0.005)
    assert abs(useless.delta) < 20 and useless.p > 0.05
    assert len(both.coefficients) == 6 and both.delta == pytest.approx(useful.delta, rel=0.05)


def test_spillover_never_crosses_sentences_whatever_the_order_of_subjects():
    frame = made_up(stories=2, sentences=3, subjects=2)
    settings = ReadingSettings(measures=["useful"], subject="subject")
    together = reading_data(frame, settings)
    mixed = frame.sort_index(key=lambda rows: rows % (len(frame) // 2), kind="stable")  # subjects take turns
    alternating = reading_data(mixed, settings)
    expected = with_lags(frame, "useful").dropna().useful_2
    np.testing.assert_array_equal(together.measures["useful"].useful_2, expected)
    assert sorted(alternating.measures["useful"].useful_2) == sorted(expected)


def test_raw_times_are_regressed_as_they_are():
    frame = made_up()
    logged = frame.assign(time=np.log(frame.time))
    log, raw = (
        evaluate_reading(one, ReadingSettings(measures=["useful"], log=scale, **FEW))
        for one, scale in ((frame, True), (logged, False))
    )
    np.testing.assert_allclose(log.measures["useful"].increments, raw.measures["useful"].increments)


def test_subjects_get_a_random_intercept_as_in_statsmodels():
    frame = made_up(sentences=4, subjects=5)
    data = reading_data(frame, ReadingSettings(measures=["useful"], subject="subject"))
    predictors = data.predictors("useful")
    fitted = fit(data.times, predictors.to_numpy(), data.subjects)
    formula = f"y ~ {' + '.join(predictors)}"
    hand = smf.mixedlm(formula, predictors.assign(y=data.times), groups=data.subjects).fit(reml=False)
    np.testing.assert_allclose(fitted.coefficients, hand.fe_params, rtol=1e-4)
    assert (fitted.noise, fitted.between) == pytest.approx((hand.scale, hand.cov_re.iloc[0, 0]), rel=1e-3)
    means, _ = predict(fitted, predictors.to_numpy(), {}, None)
    offsets = subject_offsets(fitted, data.times - means, data.subjects)
    for subject, effects in hand.random_effects.items():
        assert offsets[subject][0] == pytest.approx(effects.iloc[0], abs=1e-3)
        assert offsets[subject][1] == pytest.approx(float(hand.random_effects_cov[subject].iloc[0, 0]), rel=0.01)


def test_mixed_effects_find_a_known_effect_and_predict_new_subjects_too():
    frame = made_up(sentences=4, subjects=5)
    frame = frame[(frame.subject != "s4") | (frame.story == 4)]  # one subject has read one story alone
    report = evaluate_reading(frame, ReadingSettings(measures=["useful", "useless"], subject="subject", **FEW))
    useful, useless = report.measures.values()
    assert useful.delta > 500 and useful.p == 1 / 200 and useless.p > 0.05
    assert [one.value for one in useful.coefficients.values()] == pytest.approx(LAGS, abs=0.005)
    fitted = Fitted(np.array([1.0]), np.array([0.0]), noise=0.5, between=2.0)
    means, variances = predict(fitted, np.empty((2, 0)), {"known": (0.25, 0.1)}, np.array(["known", "new"]))
    assert (means.tolist(), variances.tolist()) == ([1.25, 1.0], [0.6, 2.5])


def test_the_permutation_test_is_exact_in_small_samples_and_the_same_for_a_seed():
    increments = np.array([3.0, -1.0, 2.0, 0.5, 4.0, -1.5])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    exact = np.mean(increments @ signs >= increments.sum())
    assert permutation_test(increments, 20_000, seed=1) == pytest.approx(exact, abs=0.005)
    assert permutation_test(increments, 500, seed=1) == permutation_test(increments, 500, seed=1)


def test_increments_are_one_row_a_word_and_point_at_the_table():
    frame = made_up()
    report = evaluate_reading(frame, ReadingSettings(measures=["useful"], **FEW))
    rows = report.increments()
    assert list(rows) == ["row", "story", "sentence_id", "position", "word", "log_likelihood", "delta_useful"]
    assert (frame.word[rows.row - 1].to_numpy() == rows.word).all()
    assert 1000 * rows.delta_useful.mean() == pytest.approx(
        report.to_json()["measures"]["useful"]["delta_ll_per_1000"]
    )


def test_the_figure_has_a_bar_per_measure_and_a_dot_per_story():
    report = evaluate_reading(made_up(), ReadingSettings(measures=["useful", "useless"], **FEW))
    (axes,) = reading_figure(report).axes
    assert [bar.get_width() for bar in axes.patches] == [one.delta for one in report.measures.values()]
    assert [len(line.get_xdata()) for line in axes.lines[:2]] == [4, 4]


def test_a_baseline_may_be_an_intercept_alone():
    settings = ReadingSettings(measures=["useful"], baseline=(), controls=(), spillover=0, **FEW)
    report = evaluate_reading(made_up(), settings)
    assert report.predictors == [] and report.measures["useful"].delta > 0 and len(report.rows) == 288


def test_columns_of_words_before_that_do_not_vary_are_left_out():
    frame = made_up()
    frame["word"] = list(WORDS) * (len(frame) // 6)
    frame["word"] = frame.word.str.replace(",", "")  # the only mark is at the end of a sentence
    report = evaluate_reading(frame, ReadingSettings(measures=["useful"], **FEW))
    assert "punctuation" in report.predictors and "punctuation_1" not in report.predictors


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda f: f, {"time": "tiem"}, "expected a column tiem, the table has story, .*; did you mean 'time'"),
        (lambda f: f.drop(columns="word"), {}, "expected a column word, the table has"),
        (lambda f: f.assign(useful=1.0), {}, "measure useful: column useful is the same in all rows: leave it out"),
        (lambda f: f.assign(useful=np.nan), {}, "column useful is empty where there are times"),
        (lambda f: f.assign(useful=2.0 * f.length), {}, "measure useful: its columns are collinear with the baseline"),
        (lambda f: f.assign(useful=f.useless * (f.story == 2)), {}, "is the same in all rows without story 2"),
        (lambda f: f[f.story == 2], {}, "column story has 1 value in rows with times, which is 2: folds are whole"),
        (lambda f: f.assign(time=np.nan), {}, "column time is empty"),
        (lambda f: f.assign(time=-f.time), {}, "row 1: expected a time above 0 in column time, got -"),
        (lambda f: f.assign(time="slow"), {}, "row 1: expected a number in column time, got 'slow'"),
        (lambda f: f.assign(time=np.inf), {}, "row 1: expected a number in column time, got inf"),
        (lambda f: f.groupby("story").head(6), {}, "12 rows are left without story 1: the regression needs at least"),
        (lambda f: f, {"spillover": 6}, "no row with a time has 6 words before it in its sentence"),
        (
            lambda f: f.assign(story=f.story.where(f.index != 4)),
            {},
            "row 5: expected a value in column story, got none",
        ),
        (lambda f: f.assign(story=1 + f.story % 2), {}, "row 145: story 2, sentence_id 1 was left and comes again"),
        (lambda f: f, {"measures": ()}, "the table has none of the measures surprisal, "),
        (lambda f: f.assign(word="dog"), {}, "the baseline: column punctuation is the same in all rows: leave it out"),
    ],
)
def test_what_cannot_be_regressed_is_said_in_one_line(change, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluate_reading(change(made_up()), ReadingSettings(**{"measures": ["useful"], **FEW, **settings}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".csv", ".jsonl"])
def test_tables_are_read_with_every_word_in_them(suffix, tmp_path):
    frame = pd.DataFrame({"word": ["null", "NA", '"', "nan"], "time": [1.5, None, 2.0, 3.0]})
    file = tmp_path / f"table{suffix}"
    if suffix == ".jsonl":
        frame.to_json(file, orient="records", lines=True)
    elif suffix == ".csv":
        frame.to_csv(file, index=False)
    else:
        frame.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE)
    read = read_frame(file)
    assert list(read.word) == list(frame.word)
    assert read.time.isna().tolist() == [False, True, False, False]


def test_json_lines_are_read_as_they_are(tmp_path):
    (tmp_path / "table.jsonl").write_text('{"s": "01", "my_time": 350000000}\n{"s": "1", "my_time": null}\n')
    read = read_frame(tmp_path / "table.jsonl")
    assert read.s.tolist() == ["01", "1"] and read.my_time.iloc[0] == 350_000_000 and read.my_time.isna().iloc[1]


def test_numbers_that_other_programs_mark_as_missing_are_missing(tmp_path):
    frame = made_up()
    frame["time"] = frame.time.astype(str).where(frame.index > 3, "NA")
    frame.to_csv(tmp_path / "table.csv", index=False)
    report = evaluate_reading(read_frame(tmp_path / "table.csv"), ReadingSettings(measures=["useful"], **FEW))
    assert report.left_out["no time"] == 4


@pytest.mark.parametrize(("name", "content"), [("t.xlsx", "a"), ("t.tsv", ""), ("t.csv", "a,b\n"), ("t.jsonl", "{")])
def test_what_is_no_table_is_refused(name, content, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"{name}: expected"):
        read_frame(tmp_path / name)
