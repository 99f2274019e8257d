"""Makes SOM known to the Auto classes of transformers, as soon as transformers is imported and not before."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def register_with_transformers() -> None:
    """Register at once where transformers is there already; otherwise when it comes."""
    if "transformers" in sys.modules:
        register()
    elif not any(isinstance(finder, AfterTransformers) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterTransformers())


def register() -> None:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
    from transformers.models.auto.tokenization_auto import REGISTERED_TOKENIZER_CLASSES
    from transformers.pipelines import PIPELINE_REGISTRY

    from modeling_som import SOMConfig, SOMForCausalLM, SOMModel, SOMTokenizer
    from modeling_som.pipelines_som import ParsePipeline, SurprisalPipeline
    from modeling_som.tokenization_som import SAVED_CLASS

    AutoConfig.register(SOMConfig.model_type, SOMConfig, exist_ok=True)
    AutoModel.register(SOMConfig, SOMModel, exist_ok=True)
    AutoModelForCausalLM.register(SOMConfig, SOMForCausalLM, exist_ok=True)
    AutoTokenizer.register(SOMConfig, tokenizer_class=SOMTokenizer, exist_ok=True)
    REGISTERED_TOKENIZER_CLASSES[SAVED_CLASS] = SOMTokenizer
    for task, pipeline in (("parse", ParsePipeline), ("surprisal", SurprisalPipeline)):
        PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline, pt_model=AutoModelForCausalLM)


class AfterTransformers(MetaPathFinder):
    """Lets the usual finders find transformers, and registers when it has been executed.

    transformers takes seconds to import, which `som --help` should not."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "transformers":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
