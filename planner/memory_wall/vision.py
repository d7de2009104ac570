"""A convolutional network as data: its layers' shapes, and how many images it was trained on."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from planner.schema.base import Strict
from planner.schema.model import Count, Number

#: One number for both directions, or (height, width).
Size: TypeAlias = Count | Annotated[tuple[Count, Count], Field(strict=False)]
Padding: TypeAlias = Number | Annotated[tuple[Number, Number], Field(strict=False)]


class Convolution(Strict):
    """A convolution, with the normalisation and the rectifier that follow it."""

    op: Literal["convolution"]
    channels: Count | None = None  # of the output; left out: as many as the input
    kernel: Size = 1
    stride: Size = 1
    padding: Padding | None = None  # left out: (kernel - 1) // 2, which keeps the size at stride 1
    groups: Count = 1
    depthwise: bool = False  # as many groups as input channels
    batch_norm: bool | None = None  # left out: what the network says
    bias: bool | None = None  # left out: where no batch normalisation follows
    relu: bool | None = None  # left out: what the network says


class Pooling(Strict):
    """The largest value or the mean of a window."""

    op: Literal["max_pool", "average_pool"]
    kernel: Size
    stride: Size = 1
    padding: Padding = 0
    ceil: bool = False  # whether a window that is not full counts


class GlobalPooling(Strict):
    """The mean over the whole image."""

    op: Literal["global_average_pool"]


class Linear(Strict):
    """A matrix over all that comes in, with a bias, and the rectifier that follows it."""

    op: Literal["linear"]
    channels: Count
    relu: bool = False


class Normalisation(Strict):
    """A normalisation of its own: over the batch, with a rectifier (pre-activation), or over neighbouring channels."""

    op: Literal["batch_norm", "local_response_norm"]
    relu: bool = True  # after a batch normalisation


class Rectifier(Strict):
    """A rectifier of its own."""

    op: Literal["relu"]
    in_place: bool = True  # false: its input is needed by another branch


class Branches(Strict):
    """Sequences of layers that read the same input; an empty one passes it on."""

    op: Literal["branches"]
    join: Literal["add", "concatenate"]
    branches: Annotated[list[list[Layer]], Field(min_length=2)]


class Repeat(Strict):
    """The same layers several times, one after the other, each time with parameters of their own."""

    op: Literal["repeat"]
    times: Count
    layers: list[Layer]


Layer: TypeAlias = Annotated[
    Convolution | Pooling | GlobalPooling | Linear | Normalisation | Rectifier | Branches | Repeat,
    Field(discriminator="op"),
]


class ImageTraining(Strict):
    """How many images the network saw, all epochs together."""

    images: Annotated[float, Field(gt=0)]
    source: str
    inferred: bool = False  # from the published training compute


class ConvolutionalNetwork(Strict):
    """One network. Sizes are counts of elements."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    also_named: tuple[str, ...] = Field(default=(), strict=False)  # in the published tables
    year: Annotated[int, Field(ge=2012, le=2100)]
    source: str
    input_channels: Count = 3
    input_size: Count  # height and width
    batch_norm: bool  # whether a normalisation follows each convolution
    relu: bool = True  # whether a rectifier follows each convolution
    layers: Annotated[list[Layer], Field(min_length=1)]
    training: ImageTraining | None = None
    note: str = ""


Branches.model_rebuild()
Repeat.model_rebuild()
