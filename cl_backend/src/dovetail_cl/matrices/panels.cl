// Panels of columns: [panel][depth][column of the panel], with zeros past the last column.
//
// B: type of what is packed. PANEL: columns of a panel. PANELS: the address space of panels.

// Pack the terms of depth `from` to `to` of one panel; `line` and `step` are the elements between
// neighbouring columns, and terms.
void pack_panel(PANELS float *packed, const __global B *b, uint columns, ulong line, ulong step, uint from, uint to)
{
    packed += (ulong)from * PANEL;
    b += from * step;
    const uint depth = to - from;
    if (line == 1 && columns == PANEL) {
        for (uint k = 0; k < depth; ++k) {
            for (uint j = 0; j < PANEL; ++j) {
                packed[k * PANEL + j] = LOAD_AS(B, b, k * step + j);
            }
        }
        return;
    }
    for (uint j = 0; j < PANEL; ++j) {
        if (j < columns) {
            for (uint k = 0; k < depth; ++k) {
                packed[k * PANEL + j] = LOAD_AS(B, b, k * step + j * line);
            }
        } else {
            for (uint k = 0; k < depth; ++k) {
                packed[k * PANEL + j] = 0;
            }
        }
    }
}
