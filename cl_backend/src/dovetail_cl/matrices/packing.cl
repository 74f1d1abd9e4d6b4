// Panels of columns: packed[matrix][panel][depth][column of the panel], with zeros past the last.
//
// T: type of the elements. PANEL: columns of a panel.

typedef struct {
    ulong matrix;               // elements of one
    uint columns, depth;
    uint at_once;               // terms of depth for each work item
    int line, step;             // elements between neighbouring columns, and terms of depth
} packing;

__kernel void pack(TENSOR(const T, b), TENSOR(float, packed), const packing p)
{
    BEGIN(const T, b);
    BEGIN(float, packed);
    const uint first = get_global_id(1) * PANEL;
    const uint from = get_global_id(0) * p.at_once, to = min(p.depth, from + p.at_once);
    const uint columns = min((uint)PANEL, p.columns - first);
    b += get_global_id(2) * p.matrix + (ulong)first * p.line;
    packed += (get_global_id(2) * get_global_size(1) + get_global_id(1)) * p.depth * PANEL;
    if (p.line == 1 && columns == PANEL) {
        for (uint k = from; k < to; ++k) {
            for (uint j = 0; j < PANEL; ++j) {
                packed[(ulong)k * PANEL + j] = LOAD_AS(T, b, (ulong)k * p.step + j);
            }
        }
    } else {
        for (uint k = from; k < to; ++k) {
            for (uint j = 0; j < PANEL; ++j) {
                packed[(ulong)k * PANEL + j] = j < columns ? LOAD_AS(T, b, (ulong)k * p.step + (ulong)j * p.line) : 0.0f;
            }
        }
    }
}
