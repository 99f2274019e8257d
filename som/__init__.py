"""Syntactic Ordered Memory: a language model that parses while it reads."""
