"""Signatures of the functions whose options are a record (`verb` in `odm.verbs.sources`), for mkdocstrings."""

import ast
import inspect
from typing import Any

import griffe

import odm


class Signatures(griffe.Extension):
    """Replaces the record, the only parameter in the source, by the parameters that users give."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the functions of the package once it is loaded."""
        for name in odm.__all__:
            value = getattr(odm, name)
            if inspect.isfunction(value) and "__signature__" in vars(value):
                function = pkg[f"{value.__module__.removeprefix('odm.')}.{name}"]
                parameters = inspect.signature(value).parameters.values()
                function.parameters = griffe.Parameters(*(parameter_of(one, function) for one in parameters))


def parameter_of(one: inspect.Parameter, function: griffe.Function) -> griffe.Parameter:
    """A parameter with its annotation as an expression, whose names become links."""
    default = None if one.default is one.empty else repr(one.default)
    annotation = None
    if one.annotation is not one.empty:
        annotation = griffe.get_expression(ast.parse(one.annotation, mode="eval").body, parent=function)
    return griffe.Parameter(
        one.name, annotation=annotation, kind=griffe.ParameterKind(one.kind.description), default=default
    )
