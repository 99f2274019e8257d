"""The configuration of a SOM, under the name that the field expects it."""

from modeling_som.configuration_som import SOMConfig as SOMConfig

__all__ = ["SOMConfig"]
