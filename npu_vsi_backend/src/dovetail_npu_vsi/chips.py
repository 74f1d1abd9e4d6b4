"""What is known of each chip: what decides where operations run, and how long they take.

Numbers are those that the vendor's driver prints for the chip's configuration (ovxlib 1.2.30);
what is called fitted was chosen so that `estimate` agrees with the cycles that it prints for single
layers. `benchmarks/npu_estimates.py` says how well it does.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvolutionEngine:
    """The convolution engine (NN): cores of 64 lanes, each of which sums up products for a pixel.

    Attributes:
        largest_kernel: Rows and columns of a kernel, at most; a dilated one counts what it spans.
        has_depthwise: It has a mode for depthwise convolutions; else these are dense ones, most of
            whose weights are zero.
        squares_kernels: Kernels are filled up with zeros to squares.
        flattens_images: An image that is read pixel by pixel is given rows of 64 pixels or less.
        drops_columns: Kernels of 3 columns and 1 row may drop results too, and so may images of odd
            width and even height: strides of two are computed as one, and results left out.
        deep_products: Of one lane and cycle, along channels.
        window_products: Columns and rows that a lane takes of one channel in a cycle, where that
            is faster; zeros if it has no such unit.
        input_rows: Rows of 64 pixels that the buffer of the input holds.
        accumulators: Sums that a lane holds at a time.
        filters_per_core: At most at a time, whatever the sums. Fitted.
        weights_per_cycle: Decoded by a core.
        entropy_coded: Weights are packed to about their entropy; else runs of zeros are left out.
        dense_share: Of the cycles that a kernel without zeros takes, what one takes into which
            zeros were put: the first plus the second times its density, at least the third. Fitted.
        burst_bytes: What transfers with external memory are rounded to.
        overhead_cycles: Of each operation. Fitted.
    """

    largest_kernel: int
    has_depthwise: bool
    squares_kernels: bool
    flattens_images: bool
    drops_columns: bool
    deep_products: int
    window_products: tuple[int, int]
    input_rows: int
    accumulators: int
    filters_per_core: int
    weights_per_cycle: float
    entropy_coded: bool
    dense_share: tuple[float, float, float]
    burst_bytes: int
    overhead_cycles: float


@dataclass(frozen=True)
class TensorProcessor:
    """The tensor processor (TP): pooling, movement, tables.

    Attributes:
        bytes_per_cycle: Moved by a core. Fitted.
        moves_in_turn: Reads and writes add up; else they overlap.
        overhead_cycles: Of an operation that waits for memory. Fitted.
        busy_overhead_cycles: Of one that does not. Fitted.
        rearranges: It makes channels of the pixels between strides; else the shader does.
        cuts_permutations: A permutation becomes parts of 32 columns, and two of each.
    """

    bytes_per_cycle: float
    moves_in_turn: bool
    overhead_cycles: float
    busy_overhead_cycles: float
    rearranges: bool
    cuts_permutations: bool


@dataclass(frozen=True)
class Chip:
    """A configuration of the NPU.

    Attributes:
        target: Its id, which stands in the head of each binary.
        name: As people call it.
        simulator: Name of the configuration for the vendor's simulator.
        nn_cores: Cores of the convolution engine (NN).
        macs_per_cycle: Products of bytes that all NN cores sum up in a cycle, along channels;
            kernels of several pixels may get half as many again where there is a unit for windows.
        tp_cores: Cores of the tensor processor (TP): pooling, movement, tables.
        shader_cores: Cores of the programmable engine (SH).
        sram_bytes: Of the memory on the NPU, what programs may use.
        axi_sram_bytes: Of the memory beside it on the bus.
        fraction_bits: Of the mantissa by which sums of products are scaled, its leading one apart.
        hertz: Clock. The driver does not print it.
        bytes_per_cycle: What the driver supposes external memory to give where nothing else is
            said.
        bus_bytes_per_cycle: What it gives at most, whatever is said.
        keeps_tensors: What is between two operations may stay in the memory on the NPU.
        nn: The convolution engine.
        tp: The tensor processor.
    """

    target: int
    name: str
    simulator: str
    nn_cores: int
    macs_per_cycle: int
    tp_cores: int
    shader_cores: int
    sram_bytes: int
    axi_sram_bytes: int
    fraction_bits: int
    hertz: float
    bytes_per_cycle: float
    bus_bytes_per_cycle: float
    keeps_tensors: bool
    nn: ConvolutionEngine
    tp: TensorProcessor


CHIPS = (
    Chip(
        target=0x9F,
        name="i.MX 8M Plus",
        simulator="VIP8000NANOSI_PLUS_PID0X9F",
        nn_cores=6,
        macs_per_cycle=1152,
        tp_cores=3,
        shader_cores=1,
        sram_bytes=260096,
        axi_sram_bytes=0,
        fraction_bits=23,
        hertz=1e9,
        bytes_per_cycle=3.8,
        bus_bytes_per_cycle=16.0,
        keeps_tensors=True,
        nn=ConvolutionEngine(
            largest_kernel=15,
            has_depthwise=True,
            squares_kernels=False,
            flattens_images=True,
            drops_columns=True,
            deep_products=3,
            window_products=(0, 0),
            input_rows=9,
            accumulators=32,
            filters_per_core=21,
            weights_per_cycle=2.0,
            entropy_coded=True,
            dense_share=(0.12, 1.8, 0.2),
            burst_bytes=256,
            overhead_cycles=960.0,
        ),
        tp=TensorProcessor(
            bytes_per_cycle=2.0,
            moves_in_turn=True,
            overhead_cycles=2407.0,
            busy_overhead_cycles=2407.0,
            rearranges=True,
            cuts_permutations=True,
        ),
    ),
    Chip(
        target=0x88,
        name="A311D",
        simulator="VIPNANOQI_PID0X88",
        nn_cores=8,
        macs_per_cycle=1536,
        tp_cores=4,
        shader_cores=1,
        sram_bytes=522240,
        axi_sram_bytes=1048576,
        fraction_bits=15,
        hertz=8e8,
        bytes_per_cycle=3.8,
        bus_bytes_per_cycle=16.0,
        keeps_tensors=False,
        nn=ConvolutionEngine(
            largest_kernel=11,
            has_depthwise=False,
            squares_kernels=True,
            flattens_images=False,
            drops_columns=False,
            deep_products=3,
            window_products=(3, 2),
            input_rows=12,
            accumulators=64,
            filters_per_core=128,
            weights_per_cycle=1.0,
            entropy_coded=False,
            dense_share=(0.15, 0.85, 0.15),
            burst_bytes=64,
            overhead_cycles=2450.0,
        ),
        tp=TensorProcessor(
            bytes_per_cycle=4.0,
            moves_in_turn=False,
            overhead_cycles=2407.0,
            busy_overhead_cycles=1000.0,
            rearranges=False,
            cuts_permutations=False,
        ),
    ),
)
"""Chips that programs can be compiled for, those of `VsiNpu:0`, `VsiNpu:1` and so on."""


def chip_of(target: int) -> Chip | None:
    """Return the chip of an id; None if it is not known."""
    return next((chip for chip in CHIPS if chip.target == target), None)
