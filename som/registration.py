"""Makes SOM known to the Auto classes and pipelines of transformers, as soon as these are imported and not before."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def register_with_transformers() -> None:
    """Register what is there already; the rest when it comes."""
    if not any(isinstance(finder, AfterTransformers) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterTransformers())


def register_classes() -> None:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
    from transformers.models.auto.tokenization_auto import REGISTERED_TOKENIZER_CLASSES

    from modeling_som import SOMConfig, SOMForCausalLM, SOMModel, SOMTokenizer
    from modeling_som.tokenization_som import SAVED_CLASS

    AutoConfig.register(SOMConfig.model_type, SOMConfig, exist_ok=True)
    AutoModel.register(SOMConfig, SOMModel, exist_ok=True)
    AutoModelForCausalLM.register(SOMConfig, SOMForCausalLM, exist_ok=True)
    AutoTokenizer.register(SOMConfig, tokenizer_class=SOMTokenizer, exist_ok=True)
    REGISTERED_TOKENIZER_CLASSES[SAVED_CLASS] = SOMTokenizer


def register_pipelines() -> None:
    from transformers import AutoModelForCausalLM
    from transformers.pipelines import PIPELINE_REGISTRY

    from modeling_som.pipelines_som import ParsePipeline, SurprisalPipeline

    for task, pipeline in (("parse", ParsePipeline), ("surprisal", SurprisalPipeline)):
        PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline, pt_model=AutoModelForCausalLM)


class AfterTransformers(MetaPathFinder):
    """Lets the usual finder find modules, and registers when those of transformers have come that know of classes.

    They bring torch, which takes seconds to import; `som --help` and `som prepare` need neither. What imports them may
    be half a module itself, of transformers or of ours: registering waits for the end of the outermost import."""

    def __init__(self) -> None:
        self.importing = 0  # modules, each by the one before
        self.waiting: dict[str, Callable[[], None]] = {
            "transformers.models.auto.configuration_auto": register_classes,
            "transformers.pipelines": register_pipelines,
        }
        self.register()

    def register(self) -> None:
        while due := [module for module in self.waiting if module in sys.modules]:
            self.waiting.pop(due[0])()

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not self.waiting or name.partition(".")[0] not in ("transformers", "modeling_som"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self.counted(spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def counted(self, execute: Callable[..., None]) -> Callable[..., None]:
        def execute_and_register(module: ModuleType) -> None:
            self.importing += 1
            try:
                execute(module)
            finally:
                self.importing -= 1
            if not self.importing:
                self.register()

        return execute_and_register
