"""What a convolutional network costs: parameters, multiply-adds, and what its backward pass needs of the forward pass.

A convolution of ``c`` to ``k`` channels in ``g`` groups with a kernel ``p x q`` has ``k c p q / g`` weights and takes one
multiply-add for each weight and each place of its output. The activation memory counts each tensor that some
operation's backward pass reads, once: the inputs of products, of normalisations and of pooling, the output of a
rectifier (which works in place), both sides of a local response normalisation, and the places that largest-value pooling
took. Sums, concatenations and the mean of a whole image need nothing; that of a window needs only a shape, but
frameworks keep its input (PyTorch, tools/autograd/derivatives.yaml, avg_pool2d). Images and dropout masks are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.errors import InputError
from planner.memory_wall.vision import (
    Branches,
    Convolution,
    ConvolutionalNetwork,
    GlobalPooling,
    Layer,
    Linear,
    Normalisation,
    Padding,
    Pooling,
    Rectifier,
    Repeat,
    Size,
)

VALUE_BYTES = 4  # activations in fp32
PLACE_BYTES = 8  # a place that a largest-value pooling took, a 64-bit integer


@dataclass(frozen=True)
class NetworkCost:
    """What one network costs: ``parameters`` (elements), ``multiply_adds`` and ``activation_bytes`` for one image."""

    parameters: int
    multiply_adds: int
    activation_bytes: int

    @property
    def forward_flop(self) -> int:
        """FLOP of one image, two for each multiply-add of a convolution or a matrix."""
        return 2 * self.multiply_adds


def network_cost(network: ConvolutionalNetwork) -> NetworkCost:
    """The cost of ``network``. Raises `InputError` where its layers do not fit one another."""
    walk = _Walk(network)
    image = _Image(network.input_channels, network.input_size, network.input_size)
    result = walk.sequence(network.layers, image, "layers")
    walk.keep(result)  # the loss reads it
    walk.kept.pop(id(image), None)
    kept = sum(VALUE_BYTES * tensor.elements for tensor in walk.kept.values())
    return NetworkCost(walk.parameters, walk.multiply_adds, kept + PLACE_BYTES * walk.places)


@dataclass(eq=False)
class _Image:
    """A tensor of one image; one object for each piece of memory."""

    channels: int
    height: int
    width: int

    @property
    def elements(self) -> int:
        return self.channels * self.height * self.width


@dataclass
class _Walk:
    """The layers are walked once, in order, and counted."""

    network: ConvolutionalNetwork
    parameters: int = 0
    multiply_adds: int = 0
    places: int = 0
    kept: dict[int, _Image] = field(default_factory=dict)

    def keep(self, tensor: _Image) -> None:
        self.kept[id(tensor)] = tensor

    def sequence(self, layers: Sequence[Layer], tensor: _Image, where: str) -> _Image:
        for number, layer in enumerate(layers):
            tensor = self.layer(layer, tensor, f"{where}[{number}]")
        return tensor

    def layer(self, layer: Layer, tensor: _Image, where: str) -> _Image:
        match layer:
            case Convolution():
                return self.convolution(layer, tensor, where)
            case Pooling():
                return self.pooling(layer, tensor, where)
            case GlobalPooling():
                return _Image(tensor.channels, 1, 1)
            case Linear():
                return self.linear(layer, tensor)
            case Normalisation():
                return self.normalisation(layer, tensor)
            case Rectifier():
                return self.rectifier(tensor if layer.in_place else _Image(*_shape(tensor)))
            case Branches():
                return self.branches(layer, tensor, where)
            case Repeat():
                for _ in range(layer.times):
                    tensor = self.sequence(layer.layers, tensor, f"{where}.layers")
                return tensor

    def convolution(self, layer: Convolution, tensor: _Image, where: str) -> _Image:
        channels = layer.channels or tensor.channels
        groups = tensor.channels if layer.depthwise else layer.groups
        if tensor.channels % groups or channels % groups:
            problem = f"{groups} groups do not divide {tensor.channels} input and {channels} output channels"
            raise InputError(f"{self.network.name}: {where}: {problem}")
        kernel = _pair(layer.kernel)
        padding = tuple((size - 1) // 2 for size in kernel) if layer.padding is None else _pair(layer.padding)
        height, width = self.window(tensor, kernel, _pair(layer.stride), (padding[0], padding[1]), False, where)
        result = _Image(channels, height, width)
        weights = channels * tensor.channels * kernel[0] * kernel[1] // groups
        norm = self.network.batch_norm if layer.batch_norm is None else layer.batch_norm
        bias = not norm if layer.bias is None else layer.bias
        self.parameters += weights + (channels if bias else 0)
        self.multiply_adds += weights * height * width
        self.keep(tensor)
        if norm:
            result = self.normalised(result)
        relu = self.network.relu if layer.relu is None else layer.relu
        return self.rectifier(result) if relu else result

    def normalised(self, tensor: _Image) -> _Image:
        self.parameters += 2 * tensor.channels
        self.keep(tensor)
        return _Image(*_shape(tensor))

    def normalisation(self, layer: Normalisation, tensor: _Image) -> _Image:
        if layer.op == "batch_norm":
            result = self.normalised(tensor)
            return self.rectifier(result) if layer.relu else result
        result = _Image(*_shape(tensor))
        self.keep(tensor)
        self.keep(result)
        return result

    def rectifier(self, tensor: _Image) -> _Image:
        self.keep(tensor)
        return tensor

    def pooling(self, layer: Pooling, tensor: _Image, where: str) -> _Image:
        kernel, stride, padding = _pair(layer.kernel), _pair(layer.stride), _pair(layer.padding)
        result = _Image(tensor.channels, *self.window(tensor, kernel, stride, padding, layer.ceil, where))
        self.keep(tensor)
        if layer.op == "max_pool":
            self.places += result.elements
        return result

    def linear(self, layer: Linear, tensor: _Image) -> _Image:
        weights = tensor.elements * layer.channels
        self.parameters += weights + layer.channels
        self.multiply_adds += weights
        self.keep(tensor)
        result = _Image(layer.channels, 1, 1)
        return self.rectifier(result) if layer.relu else result

    def branches(self, layer: Branches, tensor: _Image, where: str) -> _Image:
        ends = [
            self.sequence(branch, tensor, f"{where}.branches[{number}]") for number, branch in enumerate(layer.branches)
        ]
        joined = [_shape(end) if layer.join == "add" else _shape(end)[1:] for end in ends]
        if any(shape != joined[0] for shape in joined):
            shapes = ", ".join(" x ".join(map(str, _shape(end))) for end in ends)
            raise InputError(f"{self.network.name}: {where}: branches of different shapes ({shapes}) cannot be joined")
        if layer.join == "add":  # into the first branch's memory, unless that is the input's
            return ends[0] if ends[0] is not tensor else _Image(*_shape(tensor))
        return _Image(sum(end.channels for end in ends), ends[0].height, ends[0].width)

    def window(
        self, tensor: _Image, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], ceil: bool,
        where: str,
    ) -> tuple[int, int]:  # fmt: skip
        """Height and width of what a sliding window makes."""
        sizes = []
        for size, window, step, edge in zip((tensor.height, tensor.width), kernel, stride, padding, strict=True):
            room = size + 2 * edge - window
            if room < 0:
                raise InputError(
                    f"{self.network.name}: {where}: a window of {window} exceeds the {size} it slides over"
                )
            places = -(-room // step) + 1 if ceil else room // step + 1
            if ceil and (places - 1) * step >= size + edge:  # the last window would begin behind the image
                places -= 1
            sizes.append(places)
        return sizes[0], sizes[1]


def _shape(tensor: _Image) -> tuple[int, int, int]:
    return tensor.channels, tensor.height, tensor.width


def _pair(size: Size | Padding) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)
