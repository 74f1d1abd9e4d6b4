"""How tensors lie in memory inside a part of the graph that CpuAcc runs.

Plain tensors lie as their shape says. An image may also be *blocked*: [N, C / lanes, H, W, lanes],
so that a pixel's channels of a block fill one vector; the last block is padded with lanes whose
values nobody reads. Quantized images lie in *bytes*: [N, H, W, C], channels padded to whole
registers, elements signed or not as the instructions at hand want them.
"""

from __future__ import annotations

import math

from dovetail import DataLayout, DType, OpaqueLayout, TensorInfo
from dovetail.ground.records import NamedTuple


class Image(NamedTuple):
    """Sizes of a batch of images, whatever order its axes lie in."""

    batch: int
    channels: int
    height: int
    width: int

    @classmethod
    def of(cls, info: TensorInfo, layout: DataLayout) -> Image:
        """Read the sizes of a tensor of rank 4."""
        if layout is DataLayout.NCHW:
            return cls(*info.sizes)
        batch, height, width, channels = info.sizes
        return cls(batch, channels, height, width)

    @property
    def pixels(self) -> int:
        """Pixels of one image."""
        return self.height * self.width

    def shape(self, layout: DataLayout) -> tuple[int, int, int, int]:
        """The sizes in the order of a layout."""
        if layout is DataLayout.NCHW:
            return self.batch, self.channels, self.height, self.width
        return self.batch, self.height, self.width, self.channels


def blocks(channels: int, lanes: int) -> int:
    """Number of blocks that hold so many channels."""
    return -(-channels // lanes)


def blocked_info(image: Image, lanes: int) -> TensorInfo:
    """Describe a blocked tensor; its shape is told in the order NCHW."""
    nbytes = image.batch * blocks(image.channels, lanes) * image.pixels * lanes * 4
    return TensorInfo(image.shape(DataLayout.NCHW), DType.FLOAT32, opaque=OpaqueLayout(f"blocked{lanes}", nbytes))


BFLOAT16_BLOCK = 32
"""Channels in a bfloat16 block: a vector of AVX-512, or a row of a matrix unit, in bytes."""


def bfloat16_info(image: Image) -> TensorInfo:
    """Describe a bfloat16 tensor in blocks of 32 channels.

    Shape and type are those of the float32 tensor that it stands for.
    """
    nbytes = image.batch * blocks(image.channels, BFLOAT16_BLOCK) * image.pixels * BFLOAT16_BLOCK * 2
    return TensorInfo(
        image.shape(DataLayout.NCHW), DType.FLOAT32, opaque=OpaqueLayout(f"bfloat16 blocked{BFLOAT16_BLOCK}", nbytes)
    )


def filled(filters: int, channels: int) -> float:
    """Return which share of the factors multiplied in bfloat16 is no padding, in a group."""
    room = blocks(channels, BFLOAT16_BLOCK) * BFLOAT16_BLOCK * blocks(filters, 16) * 16
    return filters * channels / room if room else 0.0


def is_bfloat16(info: TensorInfo) -> bool:
    """Whether a tensor lies in blocks of bfloat16."""
    return info.opaque is not None and info.opaque.tag.startswith("bfloat16")


BYTES_SLACK = 64
"""Bytes behind the last pixel of a quantized image that may be read."""


def pixel_bytes(channels: int) -> int:
    """Bytes from pixel to pixel of a quantized image."""
    return 4 if channels <= 4 else blocks(channels, 16) * 16


def bytes_info(image: Image, dtype: DType) -> TensorInfo:
    """Describe a quantized image in bytes; its shape is told in the order NCHW."""
    nbytes = blocks(image.batch * image.pixels * pixel_bytes(image.channels), 16) * 16 + BYTES_SLACK
    return TensorInfo(image.shape(DataLayout.NCHW), dtype, opaque=OpaqueLayout("bytes", nbytes))


def plain_info(shape: tuple[int, ...]) -> TensorInfo:
    """Describe a plain float32 tensor."""
    return TensorInfo(shape, DType.FLOAT32)


def elements(info: TensorInfo) -> int:
    """Number of stored elements, padding lanes included."""
    return info.nbytes // 4 if info.opaque else math.prod(info.sizes)
