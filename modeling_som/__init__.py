"""The files that are shipped with every checkpoint: they need torch and transformers, and nothing of `som`.

On the Hub they lie side by side in the checkpoint's folder. Names are imported when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .configuration_som import SOMConfig as SOMConfig
    from .modeling_som import SOMForCausalLM as SOMForCausalLM
    from .modeling_som import SOMModel as SOMModel
    from .modeling_som import SOMPreTrainedModel as SOMPreTrainedModel
    from .state_som import SOMCache as SOMCache
    from .state_som import SOMState as SOMState
    from .tokenization_som import SOMTokenizer as SOMTokenizer

MODULES = {
    "SOMConfig": "configuration_som",
    "SOMForCausalLM": "modeling_som",
    "SOMModel": "modeling_som",
    "SOMPreTrainedModel": "modeling_som",
    "SOMCache": "state_som",
    "SOMState": "state_som",
    "SOMTokenizer": "tokenization_som",
}
__all__ = sorted(MODULES)


def __getattr__(name: str) -> type:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
