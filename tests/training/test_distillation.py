"""What teachers add to a student's loss, and whom a student can learn from."""

import pytest
import torch
from conftest import batch_of, make_model
from transformers import AutoTokenizer

from modeling_som import SOMForCausalLM
from som.data.vocabularies import make_tokenizer
from som.training.distillation import Teachers, teach

CPU = torch.device("cpu")
STUDENT = {"next_attachment": "oracle", "structure_loss_weight": 0.7}


def loss(student: SOMForCausalLM, batch, seed: int = 0, **more) -> torch.Tensor:
    torch.manual_seed(seed)
    return student.train()(**batch, **more).loss


def gradients(student: SOMForCausalLM, batch) -> dict[str, torch.Tensor]:
    student.zero_grad()
    loss(student, batch).backward()
    return {name: parameter.grad for name, parameter in student.named_parameters()}


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_told_is_a_teachers_expectation_at_the_states_that_the_student_reached(sentences, side):
    student, teacher = make_model(**STUDENT), make_model(1)
    batch = batch_of(sentences, side)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == 0, -100)  # BOS, as the collator has it
    alone, words, attachments, count = loss(student, batch), 0.0, 0.0, 0
    torch.manual_seed(0)
    output = student(**batch)
    log_p, log_attach, log_next = (
        getattr(output, name).log_softmax(-1) for name in ("logits", "attach_logits", "next_attach_logits")
    )
    for row, (ids, _) in enumerate(sentences):
        columns = [t for t in range(batch["input_ids"].shape[1]) if batch["attention_mask"][row, t]]
        depths = output.depths[row, columns]
        told = teacher(torch.tensor([ids]), depths=depths[None])
        for t in range(1, len(ids)):
            here, before, live = columns[t], columns[t - 1], range(min(int(depths[t - 1]) + 1, 4))
            attach, next_attach = told.attach_logits[0, t].softmax(-1), told.next_attach_logits[0, t - 1].softmax(-1)
            attachments -= sum(attach[e] * log_attach[row, here, e] for e in live)
            attachments -= sum(next_attach[e] * log_next[row, before, e] for e in live)
            if depths[t] == output.oracle_depths[row, here]:
                words -= (told.logits[0, t - 1].softmax(-1) * log_p[row, before]).sum()
            count += 1
    student.register_forward_hook(Teachers([teacher]), with_kwargs=True)
    torch.testing.assert_close(loss(student, batch), (alone + (words + 0.7 * attachments) / count) / 2)
    torch.testing.assert_close(loss(student, batch, num_items_in_batch=2 * count), loss(student, batch) / 2)


def test_each_batch_is_told_by_one_of_the_teachers(sentences):
    batch, teachers = batch_of(sentences, "right"), [make_model(seed) for seed in (1, 2)]

    def losses(teachers, seeds=range(8)):
        student = make_model(**STUDENT, oracle="static")  # takes the same decisions every time
        student.register_forward_hook(Teachers(teachers), with_kwargs=True)
        return {loss(student, batch, seed).item() for seed in seeds}

    assert losses(teachers) == losses(teachers[:1]) | losses(teachers[1:])
    assert len(losses(teachers)) == 2


def test_a_student_learns_nothing_from_itself(sentences):
    student, batch = make_model(**STUDENT), batch_of(sentences, "right")
    alone = gradients(student, batch)
    student.register_forward_hook(Teachers([make_model(**STUDENT)]), with_kwargs=True)
    torch.testing.assert_close(gradients(student, batch), {name: half / 2 for name, half in alone.items()})
    other = make_model(**STUDENT)
    other.register_forward_hook(Teachers([make_model(1)]), with_kwargs=True)
    assert all((one - alone[name] / 2).abs().max() > 1e-6 for name, one in gradients(other, batch).items())


def test_teachers_read_words_where_the_student_reads_unknown_ones(sentences):
    student, batch = make_model(**STUDENT), batch_of(sentences, "right")
    asked, teacher = [], make_model(1)
    reading = teacher.model.register_forward_pre_hook
    reading(lambda _, args, inputs: asked.append(inputs["input_ids"]), with_kwargs=True)
    student.register_forward_hook(Teachers([teacher]), with_kwargs=True)
    loss(student, {**batch, "input_ids": batch["input_ids"].masked_fill(batch["input_ids"] > 10, 10)})
    real = batch["attention_mask"].bool()
    assert asked[0][real].equal(batch["input_ids"][real]) and (asked[0][real] > 10).any()


def test_validation_knows_no_teachers(sentences):
    student, batch = make_model(**STUDENT), batch_of(sentences, "right")
    alone = student(**batch).loss
    student.register_forward_hook(Teachers([]), with_kwargs=True)  # whom to ask would fail
    assert student(**batch).loss == alone


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"num_slots": 5}, "expected a teacher with 4 slots and a prediction network"),
        ({"prediction_network": False}, "expected a teacher with 4 slots and a prediction network"),
        ({"vocab_size": 24}, "expected the vocabulary of the data"),
    ],
)
def test_teachers_of_another_kind_are_refused(tmp_path, settings, message):
    tokenizer = make_tokenizer("word", [["the", "cat"]] * 2)
    save(tmp_path, tokenizer, **settings)
    with pytest.raises(ValueError, match=message):
        teach(student(tokenizer), [str(tmp_path)], tokenizer, CPU)


def test_teachers_of_other_words_are_refused(tmp_path):
    save(tmp_path, make_tokenizer("word", [["the", "cat"]] * 2))
    other = make_tokenizer("word", [["the", "dog"]] * 2)
    with pytest.raises(ValueError, match="expected the vocabulary of the data"):
        teach(student(other), [str(tmp_path)], other, CPU)


def test_students_that_guess_the_next_attachment_are_refused(tmp_path):
    save(tmp_path, tokenizer := make_tokenizer("word", [["the", "cat"]] * 2))
    with pytest.raises(ValueError, match="teachers need a student that learns the oracle's next attachment"):
        teach(make_model(), [str(tmp_path)], tokenizer, CPU)
    teach(student(tokenizer), [str(tmp_path)], AutoTokenizer.from_pretrained(tmp_path), CPU)


def student(tokenizer) -> SOMForCausalLM:
    return make_model(vocab_size=len(tokenizer), **STUDENT)


def save(folder, tokenizer, **settings) -> None:
    make_model(**{"vocab_size": len(tokenizer), **settings}).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
