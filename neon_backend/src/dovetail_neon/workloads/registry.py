"""Which function creates the workload of a kind: module of this package, and its function."""

CREATORS: dict[str, tuple[str, str]] = {
    "dovetail.ElementwiseBinary": ("elementwise", "create_binary"),
    "dovetail.LayerNormalization": ("rows", "create_layer_normalization"),
    "dovetail.Softmax": ("rows", "create_softmax"),
    "neon.Apply": ("images", "create_apply"),
    "neon.Combine": ("elementwise", "create_combine"),
    "neon.Convolve": ("convolution", "create"),
    "neon.Depthwise": ("windows", "create_depthwise"),
    "neon.Frame": ("images", "create_frame"),
    "neon.Join": ("images", "create_join"),
    "neon.LayerNormalize": ("rows", "create_layer_normalize"),
    "neon.MeanOfImage": ("windows", "create_mean"),
    "neon.Pool": ("windows", "create_pool"),
    "neon.Reorder": ("reorder", "create"),
    "neon.ScaleChannels": ("images", "create_scale"),
    "neon.View": ("images", "create_view"),
}
