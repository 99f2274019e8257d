"""A simulated accelerator: a second device for a PyTorch that knows only the CPU.

Tensors on it hold CPU tensors. Mixing them with tensors of the host is an error, as on a GPU; kernels launched, waits
of the host for the device and copies to it are counted. `register` changes the whole process: torch then has an
accelerator.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "sim"
# operators that launch nothing: they only make new views of what is there, or room for what is to come
VIEWS = """
    _reshape_alias _unsafe_view alias as_strided chunk detach detach_ diagonal empty empty_like empty_strided expand
    is_same_size item is_nonzero lift_fresh _local_scalar_dense movedim new_empty new_empty_strided numel permute
    requires_grad_ reshape resize_ select set_ size slice split split_with_sizes squeeze squeeze_ stride sym_size t t_
    tensor_split transpose transpose_ unbind unfold unsafe_split unsqueeze unsqueeze_ view view_as
"""
# operators whose result the host must wait for
WAITS = {"_unique2", "bincount", "equal", "masked_select", "nonzero", "unique_consecutive", "unique_dim"}
SCALARS = {"_local_scalar_dense", "item", "is_nonzero"}
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}  # may be indexed by the host
MIXABLE = INDEXED | {"_to_copy", "copy_", "lift_fresh", "set_"}


def register() -> None:
    """Makes the device known to torch, once in a process."""
    _setup_privateuseone_for_python_backend(NAME)


class SimTensor(Tensor):
    """A tensor on the simulated device."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "SimTensor":
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        tensor = Tensor._make_wrapper_subclass(cls, held.size(), **layout, device=torch.device(NAME, 0))
        tensor.held = held
        return tensor

    def __repr__(self, **kwargs: Any) -> str:
        return f"SimTensor({self.held!r})"

    def tolist(self) -> Any:
        Simulation.waits["tolist"] += 1
        return self.held.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a tensor of the simulated device has no numpy array, use .cpu()")

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class Parts(TorchDispatchMode):
    """Hands the parts of a composite operator to `run`, which torch does not do inside of a mode."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class Simulation(Parts):
    """While this is active, tensors can be made on the device, and what happens there is counted."""

    launches: Counter[str] = Counter()
    waits: Counter[str] = Counter()
    copies: Counter[str] = Counter()  # to the device, by those that the host does not wait for as well

    def __enter__(self):
        for counter in (self.launches, self.waits, self.copies):
            counter.clear()
        self.make = torch.tensor  # makes tensors without asking the mode
        torch.tensor = self.tensor
        return super().__enter__()

    def __exit__(self, *error):
        torch.tensor = self.make
        return super().__exit__(*error)

    def tensor(self, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Tensor:
        made = self.make(data, *args, **kwargs)
        return made if device is None else made.to(device)


def run(function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What an operator does: on the CPU, but only with tensors that a GPU could work on."""
    name = function._schema.name.split("::")[1]
    if is_composite(function) and name not in SCALARS:
        with Parts():
            result = function.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
    tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    ours = [tensor for tensor in tensors if isinstance(tensor, SimTensor)]
    target = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    here = bool(ours) if target is None else target.type == NAME  # whether the result is on the device
    if not ours and not here:
        return function(*args, **kwargs)
    check_places(name, args, kwargs, tensors, here)
    count(name, args, kwargs, here)
    return compute(function, name, args, kwargs, ours, here)


def is_composite(function) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return has_kernel(function.name(), "CompositeImplicitAutograd") and not has_kernel(function.name(), "CPU")


def check_places(name: str, args: tuple, kwargs: dict[str, Any], tensors: list[Tensor], here: bool) -> None:
    """Refuses what a GPU would refuse; numbers of the host, tensors without dimensions, are welcome."""
    host = [tensor for tensor in tensors if not isinstance(tensor, SimTensor) and tensor.ndim > 0]
    if host and len(host) < len(tensors) and name not in MIXABLE:
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, got cpu and {NAME}")
    if name in INDEXED and not isinstance(args[0], SimTensor):
        raise RuntimeError(f"{name}: a tensor of the host is indexed by one of the device")
    if name in INDEXED and len(args) > 2 and not isinstance(args[2], SimTensor) and args[2].ndim > 0:
        raise RuntimeError(f"{name}: values of the host are put into a tensor of the device")
    generator = kwargs.get("generator")
    if generator is not None and here and generator.device.type == "cpu":
        raise RuntimeError(f"{name}: a random generator of the host cannot draw on the device")


def count(name: str, args: tuple, kwargs: dict[str, Any], here: bool) -> None:
    """Notes a launch, a wait, or a copy between host and device, of which those to the host wait."""
    source = args[1] if name == "copy_" else args[0] if args else None
    if name in ("_to_copy", "copy_"):
        here = isinstance(args[0], SimTensor) if name == "copy_" else here
        if isinstance(source, SimTensor) and not here:
            Simulation.waits[name] += 1
        elif isinstance(source, SimTensor):
            Simulation.launches[name] += 1
        else:
            not_awaited = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
            Simulation.copies["not awaited" if not_awaited else "awaited"] += 1
        return
    masked = name in INDEXED and any(index is not None and index.dtype == torch.bool for index in args[1])
    uncounted = name == "repeat_interleave" and kwargs.get("output_size") is None
    if name in WAITS | SCALARS or masked or uncounted:
        Simulation.waits[name] += 1
    if name in INDEXED and any(index is not None and not isinstance(index, SimTensor) for index in args[1]):
        Simulation.copies["awaited"] += 1
    if name not in VIEWS.split():
        Simulation.launches[name] += 1


def compute(function, name: str, args: tuple, kwargs: dict[str, Any], ours: list[SimTensor], here: bool) -> Any:
    """The operator on what the tensors hold."""
    if name == "copy_":
        held(args[0]).copy_(held(args[1]))
        return args[0]
    options = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    if "device" in options:
        options["device"] = torch.device("cpu")
    args, options = tree_map(held, (tuple(args), options))
    result = function(*args, **options)
    if name in SCALARS:
        return result
    if name == "_to_copy" and result is args[0]:
        result = result.clone()
    known = {id(tensor.held): tensor for tensor in ours}  # what works in place returns the same tensor

    def wrap(leaf: Any) -> Any:
        if not here or not isinstance(leaf, Tensor) or isinstance(leaf, SimTensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else SimTensor(leaf)

    return tree_map(wrap, result)


def held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, SimTensor) else leaf


def to_device(module: nn.Module) -> nn.Module:
    """Moves the parameters of a module; tied ones stay tied. (`module.to` cannot change the class of a tensor.)"""
    moved: dict[int, nn.Parameter] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                new = nn.Parameter(SimTensor(parameter.detach().clone()), requires_grad=parameter.requires_grad)
                part._parameters[name] = moved.setdefault(id(parameter), new)
    return module
