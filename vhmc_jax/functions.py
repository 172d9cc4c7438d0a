"""Functions of users as pytrees, in such a way that compiled programs do not keep them alive.

JAX keeps every program that it compiled, by the structure of the arguments. A function in that structure would live as
long as the process, and so would its programs and its data. Here the structure holds a token that knows the function by
a weak reference. When the function is gone, those who asked are told, and let go of its programs.
"""

import weakref
from collections.abc import Callable
from typing import Any, Self

import jax


class Token:
    """Stands for a function in the structure of a pytree. There is one for each function that is alive.

    Parameters
    ----------
    resolve
        Gives the function; None where it is gone.
    """

    __slots__ = ("_resolve",)

    def __init__(self, resolve: Callable[[], Callable | None]):
        self._resolve = resolve

    def function(self) -> Callable:
        """The function."""
        if (function := self._resolve()) is None:
            raise ReferenceError("the function of this pytree is gone: keep a reference to it")
        return function


_tokens: dict[tuple[int, int], tuple[Token, Any]] = {}
"""Tokens of the functions that are alive, by address: of a method, those of its object and of its function."""
_listeners: list[Callable[[Token], Any]] = []


def when_gone(listener: Callable[[Token], Any]) -> None:
    """Have a function called with the token of each function that is gone from now on."""
    _listeners.append(listener)


def token_of(function: Callable) -> Token:
    """The token of a function, the same one each time; that of a method belongs to its object and its function.

    Raises TypeError for a callable to which there are no weak references.
    """
    owner: Any = getattr(function, "__self__", None)
    part: Any = getattr(function, "__func__", None)
    is_method = owner is not None and part is not None
    alive, key = (owner, (id(owner), id(part))) if is_method else (function, (id(function), 0))
    if key in _tokens:
        return _tokens[key][0]

    def forget(_: Any) -> None:
        token, _ = _tokens.pop(key)
        for listener in _listeners:
            listener(token)

    reference = weakref.ref(alive, forget)
    resolve = (lambda: None if (owner := reference()) is None else part.__get__(owner)) if is_method else reference
    _tokens[key] = Token(resolve), reference
    return _tokens[key][0]


@jax.tree_util.register_pytree_node_class
class Function:
    """A function as a pytree without leaves.

    Parameters
    ----------
    function
        The function.
    """

    def __init__(self, function: Callable):
        self.function = function
        self.token = token_of(function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's value."""
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return f"Function({self.function!r})"

    def tree_flatten(self) -> tuple[tuple, Token]:
        """No leaves; the token is the structure."""
        return (), self.token

    @classmethod
    def tree_unflatten(cls, token: Token, _: Any) -> Self:
        """The function of the token."""
        return cls(token.function())


def tokens_in(tree: Any) -> frozenset[Token]:
    """Tokens of all functions in a pytree."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Function))
    return frozenset(leaf.token for leaf in leaves if isinstance(leaf, Function))
