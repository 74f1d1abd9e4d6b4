// All panels of all matrices; see panels.cl.

typedef struct {
    ulong matrix;               // elements of one
    uint columns, depth;
    uint at_once;               // terms of depth for each work item
    uint line, step;            // elements between neighbouring columns, and terms of depth
} packing;

__kernel void pack(CONSTANT(B, b), TENSOR(float, packed), const packing p)
{
    BEGIN(const B, b);
    BEGIN(float, packed);
    const ulong first = get_global_id(1) * PANEL;
    const uint from = get_global_id(0) * p.at_once;
    pack_panel(packed + (get_global_id(2) * get_global_size(1) + get_global_id(1)) * p.depth * PANEL,
               b + get_global_id(2) * p.matrix + first * p.line, min((ulong)PANEL, p.columns - first),
               p.line, p.step, from, min(p.depth, from + p.at_once));
}
