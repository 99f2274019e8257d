"""Training: settings, batches, runs that can be resumed, distillation."""

from som.training.batches import TAG_COLUMNS
from som.training.models import Builder, make_config, make_model, vocabulary
from som.training.runs import LOG, RUN, learns_words, recorded_system
from som.training.settings import NUM_SLOTS, PRESETS, SETTINGS, TrainSettings, make_settings
from som.training.trainer import train
from som.training.validation import sentence_counts

__all__ = [
    "Builder",
    "LOG",
    "NUM_SLOTS",
    "PRESETS",
    "RUN",
    "SETTINGS",
    "TAG_COLUMNS",
    "TrainSettings",
    "learns_words",
    "make_config",
    "make_model",
    "make_settings",
    "recorded_system",
    "sentence_counts",
    "train",
    "vocabulary",
]
